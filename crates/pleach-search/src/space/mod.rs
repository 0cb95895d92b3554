//! The space that is searched: parameters, conditions, known constraints, and views of its points.

mod axis;
mod domain;
mod edit;
mod grid;
mod guard;
mod linear;
mod point;
mod region;
mod repair;
mod sample;
mod scan;
mod sugar;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::expression::{Expression, KEYWORDS, Quantity, Scope, Truth, View};
use crate::{Error, Literal, Rng, Value};
use guard::Guard;

pub(crate) use axis::{Axis, option_list, whole};
pub use domain::{Domain, Parameter};
pub(crate) use linear::Walls;
pub use point::{Key, Point};
pub(crate) use scan::Scan;

/// A checked list of parameters with known constraints. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Space {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    parameters: Vec<Parameter>,
    axes: Vec<Axis>,
    by_name: HashMap<String, usize>,
    /// Conditions of parameters, each after those that it depends on.
    conditions: Vec<(usize, Expression)>,
    constraints: Vec<Expression>,
    /// The axis of each coordinate of the unit cube.
    coordinates: Vec<u32>,
    /// `None` if there are no constraints.
    guard: Option<Guard>,
}

impl Space {
    /// Checks everything once: names, ranges, that conditions can be read and form no cycle, that
    /// constraints can be read and met. If constraints leave little of the space, points that keep
    /// them are searched here, with bounded work.
    ///
    /// # Errors
    /// [`Error::Parameter`] or [`Error::Expression`] for a declaration that cannot be used,
    /// [`Error::EmptySpace`] if it is proven that no point keeps the constraints.
    pub fn new(parameters: Vec<Parameter>, constraints: &[&str]) -> Result<Self, Error> {
        let mut axes = Vec::with_capacity(parameters.len());
        let mut by_name = HashMap::with_capacity(parameters.len());
        for (index, parameter) in parameters.iter().enumerate() {
            let error = |message| Error::Parameter { parameter: parameter.name.clone(), message };
            check_name(&parameter.name).map_err(error)?;
            if by_name.insert(parameter.name.clone(), index).is_some() {
                return Err(error("declared twice".into()));
            }
            axes.push(Axis::new(&parameter.domain).map_err(error)?);
        }
        let scope = Scope { parameters: &parameters, axes: &axes, by_name: &by_name };
        let mut conditions = Vec::new();
        for (index, parameter) in parameters.iter().enumerate() {
            if let Some(when) = &parameter.when {
                conditions.push((index, Expression::new(when, &scope)?));
            }
        }
        let conditions = in_order_of_dependence(conditions, &parameters)?;
        let constraints =
            constraints.iter().map(|text| Expression::new(text, &scope)).collect::<Result<_, _>>()?;
        let coordinates =
            (0..).zip(&axes).flat_map(|(i, axis)| std::iter::repeat_n(i, axis.unit_len())).collect();
        let mut inner =
            Inner { parameters, axes, by_name, conditions, constraints, coordinates, guard: None };
        if !inner.constraints.is_empty() {
            inner.guard = Some(Guard::new(&inner)?);
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The parameters as declared.
    pub fn parameters(&self) -> &[Parameter] {
        &self.inner.parameters
    }

    /// The known constraints as written.
    pub fn constraints(&self) -> impl Iterator<Item = &str> {
        self.inner.constraints.iter().map(Expression::text)
    }

    /// The index of a parameter.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.inner.by_name.get(name).copied()
    }

    /// A point from native values. Known constraints are not checked.
    ///
    /// # Errors
    /// [`Error::Point`] if the number of values, a type or a range is wrong.
    pub fn point(&self, values: Vec<Value>) -> Result<Point, Error> {
        let parameters = self.parameters();
        if values.len() != parameters.len() {
            let message = format!("the space has {} parameters", parameters.len());
            return Err(Error::Point {
                parameter: "number of values".into(),
                value: values.len().to_string(),
                message,
            });
        }
        let mut checked = Vec::with_capacity(values.len());
        for ((parameter, axis), value) in parameters.iter().zip(&self.inner.axes).zip(values) {
            checked.push(axis.check(value.clone()).map_err(|message| Error::Point {
                parameter: parameter.name.clone(),
                value: format!("{value:?}"),
                message,
            })?);
        }
        Ok(self.inner.assemble(checked))
    }

    /// A point from labelled values.
    ///
    /// # Errors
    /// [`Error::Point`] if an active parameter is missing, an inactive or unknown one is given, or a
    /// value does not belong to its parameter; [`Error::Constraint`] if a known constraint is broken.
    pub fn point_from_literals(&self, literals: &BTreeMap<String, Literal>) -> Result<Point, Error> {
        let error = |parameter: &str, message: String| {
            let value = literals.get(parameter).map_or_else(|| "nothing".into(), ToString::to_string);
            Err(Error::Point { parameter: parameter.into(), value, message })
        };
        if let Some(unknown) = literals.keys().find(|name| self.index_of(name).is_none()) {
            return error(unknown, "there is no such parameter".into());
        }
        let mut values = Vec::with_capacity(self.parameters().len());
        for (parameter, axis) in self.parameters().iter().zip(&self.inner.axes) {
            values.push(match literals.get(&parameter.name) {
                None => axis.middle(),
                Some(literal) => match axis.read(&parameter.domain, literal) {
                    Ok(value) => value,
                    Err(message) => return error(&parameter.name, message),
                },
            });
        }
        let point = self.inner.assemble(values);
        for (index, parameter) in self.parameters().iter().enumerate() {
            match (point.is_active(index), literals.contains_key(&parameter.name), &parameter.when) {
                (true, false, None) => return error(&parameter.name, "a value is needed".into()),
                (true, false, Some(when)) => {
                    return error(&parameter.name, format!("a value is needed since `{when}` holds"));
                }
                (false, true, Some(when)) => {
                    return error(&parameter.name, format!("it only exists where `{when}` holds"));
                }
                _ => {}
            }
        }
        match self.broken(&point) {
            Some(constraint) => Err(Error::Constraint { constraint: constraint.to_owned() }),
            None => Ok(point),
        }
    }

    /// The active parameters of a point with their values as people read them, in the order of the
    /// space.
    pub fn literals(&self, point: &Point) -> Vec<(&str, Literal)> {
        let all = self.parameters().iter().zip(&point.values).enumerate();
        all.filter(|(index, _)| point.is_active(*index))
            .map(|(_, (parameter, value))| (parameter.name.as_str(), axis::write(&parameter.domain, value)))
            .collect()
    }

    /// The identity of a point.
    pub fn key(&self, point: &Point) -> Key {
        point.key()
    }

    /// Whether every known constraint holds.
    pub fn admits(&self, point: &Point) -> bool {
        self.inner.admits(point)
    }

    /// The first known constraint that a point breaks.
    pub fn broken(&self, point: &Point) -> Option<&str> {
        self.inner.broken(point).map(Expression::text)
    }

    /// A number that follows from the parameters, such as `width * depth`.
    ///
    /// # Errors
    /// [`Error::Expression`] with the column of the fault.
    pub(crate) fn quantity(&self, text: &str) -> Result<Quantity, Error> {
        let Inner { parameters, axes, by_name, .. } = &*self.inner;
        Quantity::new(text, &Scope { parameters, axes, by_name })
    }

    /// Number of combinations of values, whether or not they keep the constraints: an upper bound
    /// on the number of distinct points. `None` if it is infinite or above 2⁶³.
    pub fn cardinality(&self) -> Option<u64> {
        let product =
            self.inner.axes.iter().try_fold(1_u64, |product, axis| product.checked_mul(axis.cardinality()?));
        product.filter(|&count| count <= 1 << 63)
    }

    /// The `index`-th combination of a finite space; the last parameter changes fastest.
    ///
    /// # Panics
    /// If `index` is not below [`Space::cardinality`].
    pub fn nth(&self, index: u64) -> Point {
        assert!(
            self.cardinality().is_some_and(|count| index < count),
            "nth counts the combinations of a finite space"
        );
        let mut rest = index;
        let mut values: Vec<Value> = Vec::with_capacity(self.inner.axes.len());
        for axis in self.inner.axes.iter().rev() {
            let count = axis.cardinality().expect("checked: the space is finite");
            values.push(axis.nth(rest % count));
            rest /= count;
        }
        values.reverse();
        self.inner.assemble(values)
    }
}

impl Inner {
    /// A point of values that are known to be in range: finds out what is active.
    fn assemble(&self, values: Vec<Value>) -> Point {
        let values = values.into_boxed_slice();
        if self.conditions.is_empty() {
            return Point { values, active: None };
        }
        let mut active = vec![true; values.len()].into_boxed_slice();
        for (index, condition) in &self.conditions {
            active[*index] = condition.truth(View { values: &values, active: Some(&active) }) == Truth::True;
        }
        let active = active.contains(&false).then_some(active);
        Point { values, active }
    }

    /// A uniform point of the unit cube, inside the constraints or not.
    fn draw(&self, rng: &mut Rng) -> Point {
        let mut values = Vec::with_capacity(self.axes.len());
        values.extend(self.axes.iter().map(|axis| axis.draw(rng)));
        self.assemble(values)
    }

    fn admits(&self, point: &Point) -> bool {
        self.broken(point).is_none()
    }

    fn broken(&self, point: &Point) -> Option<&Expression> {
        #[cfg(test)]
        MEMBERSHIP_TESTS.set(MEMBERSHIP_TESTS.get() + 1);
        self.constraints.iter().find(|constraint| !constraint.truth(point.view()).is_kept())
    }
}

#[cfg(test)]
thread_local! {
    /// Counts what [`Space::sample`] and [`Space::mutate`] promise to bound.
    static MEMBERSHIP_TESTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || !name.chars().all(allowed) {
        return Err("a name is a letter or underscore, then letters, digits, `_`, `-`, `.`".into());
    }
    if KEYWORDS.contains(&name) {
        return Err(format!("{name} is a word of the expression language; choose another name"));
    }
    Ok(())
}

/// Sorts conditions so that each comes after the conditions of the parameters it mentions.
fn in_order_of_dependence(
    mut waiting: Vec<(usize, Expression)>,
    parameters: &[Parameter],
) -> Result<Vec<(usize, Expression)>, Error> {
    let mut open = vec![false; parameters.len()];
    for (index, _) in &waiting {
        open[*index] = true;
    }
    let mut sorted = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let (ready, rest): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(_, condition)| condition.parameters().iter().all(|&needed| !open[needed]));
        if let (true, Some((index, condition))) = (ready.is_empty(), rest.first()) {
            let message = format!(
                "its condition `{}` depends on itself, directly or through other conditions",
                condition.text()
            );
            return Err(Error::Parameter { parameter: parameters[*index].name.clone(), message });
        }
        for (index, _) in &ready {
            open[*index] = false;
        }
        sorted.extend(ready);
        waiting = rest;
    }
    Ok(sorted)
}
