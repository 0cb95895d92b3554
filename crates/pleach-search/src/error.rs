//! The errors of this crate.

/// What can be wrong with a space, a problem or a request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter cannot be built as declared.
    #[error("parameter {parameter}: {message}")]
    Parameter {
        /// Its name.
        parameter: String,
        /// What is wrong and what to write instead.
        message: String,
    },
    /// A condition or constraint cannot be read.
    #[error("expression `{expression}`, column {column}: {message}")]
    Expression {
        /// The whole expression.
        expression: String,
        /// 1-based column of the fault.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// No point keeps the known constraints, and that is proven.
    #[error(
        "no point of the space keeps the known constraints; `{constraint}` cannot hold together with the others"
    )]
    EmptySpace {
        /// The constraint that removes the last points.
        constraint: String,
    },
    /// No point that keeps the known constraints was found, and none is proven not to exist.
    #[error(
        "no point that keeps the known constraints was found; `{constraint}` is the tightest: widen it, or enqueue a point that keeps it"
    )]
    NoStart {
        /// The constraint that the fewest examined points kept.
        constraint: String,
    },
    /// Every point of the space has been proposed.
    #[error("the space is exhausted: all {points} points have been proposed")]
    Exhausted {
        /// Number of distinct points proposed.
        points: u64,
    },
    /// No new point was found, and it is not proven that none is left.
    #[error(
        "no new point that keeps the known constraints was found after {points} points; widen the space, or stop at this number of trials"
    )]
    NoNewPoint {
        /// Number of distinct points proposed.
        points: u64,
    },
    /// A point does not belong to the space.
    #[error("{parameter} = {value}: {message}")]
    Point {
        /// The parameter at fault.
        parameter: String,
        /// Its value as given.
        value: String,
        /// What is wrong.
        message: String,
    },
    /// A point breaks a known constraint.
    #[error("the point breaks the known constraint `{constraint}`")]
    Constraint {
        /// The constraint.
        constraint: String,
    },
    /// The metrics of a problem cannot be used.
    #[error("{message}")]
    Metrics {
        /// What is wrong.
        message: String,
    },
    /// No method or problem of that name is registered.
    #[error("no {kind} is called {name}; there are {known}")]
    Unknown {
        /// `method` or `problem`.
        kind: &'static str,
        /// The name as given.
        name: String,
        /// The registered names.
        known: String,
    },
    /// An option of a method cannot be used.
    #[error("option {option} of {method}: {message}")]
    Option {
        /// The method.
        method: String,
        /// The option.
        option: String,
        /// What is wrong.
        message: String,
    },
    /// A method cannot search this space.
    #[error("{method} cannot search this space: {message}")]
    Unsuitable {
        /// The method.
        method: String,
        /// Why, and what to use instead.
        message: String,
    },
    /// A trial number or its outcome does not fit the search.
    #[error("trial {number}: {message}")]
    Trial {
        /// The trial.
        number: u64,
        /// What is wrong.
        message: String,
    },
    /// A snapshot was not written by this method and version.
    #[error("the snapshot does not belong to this method and version")]
    Snapshot,
    /// A table of recorded evaluations cannot be read.
    #[error("table {table}, line {line}: {message}")]
    Table {
        /// Its name.
        table: String,
        /// 1-based line, 0 when the whole file is meant.
        line: u64,
        /// What is wrong.
        message: String,
    },
}
