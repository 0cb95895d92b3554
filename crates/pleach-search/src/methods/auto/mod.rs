//! The method that is used where none is named: another one, chosen by rule.

mod choose;

use super::options::Given;
use super::{Entry, Optimizer, Options, method};
use crate::{Error, History, Literal, REPLICATES};

pub use choose::{Alternative, Choice, Inputs, choose};

pub(super) const ENTRY: Entry = Entry {
    name: "auto",
    summary: "the method that suits the space, the budget, the parallelism and the noise",
    options: &[
        ("budget", "unknown", "trials that the study is going to have"),
        ("parallel", "1", "trials at once"),
        ("noise", "replicates > 1", "whether two evaluations of a point differ: true or false"),
        ("*", "the chosen method's", "any option of the method that is chosen"),
    ],
    learns: true,
    deliberates: true,
    build,
};

/// The chosen method itself: from here on nothing stands between.
fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    let mut options = options.clone();
    let replicates = i64::try_from(history.evaluations()).unwrap_or(i64::MAX);
    options.insert(REPLICATES.to_owned(), Literal::Int(replicates));
    let choice = choose(history.problem(), &Inputs::of(&options)?);
    options.retain(|name, _| !INPUTS.contains(&name.as_str()));
    method(choice.method)?.build(history, &options)
}

/// What the choice depends on; other options are for the method that is chosen.
const INPUTS: [&str; 4] = ["budget", "parallel", "noise", REPLICATES];

impl Inputs {
    /// What the options of `auto` say; more than one evaluation of each point is a sign of noise.
    ///
    /// # Errors
    /// [`Error::Option`] for a value that an option cannot take.
    pub fn of(options: &Options) -> Result<Self, Error> {
        let given = Given { method: ENTRY.name, options };
        let replicates = given.count(REPLICATES, 1..=u32::MAX)?.unwrap_or(1);
        let count = |name| Ok(given.count(name, 1..=u32::MAX)?.map(|count| count as u64));
        Ok(Self {
            budget: count("budget")?,
            parallel: count("parallel")?.unwrap_or(1),
            noisy: given.flag("noise", replicates > 1)?,
        })
    }
}
