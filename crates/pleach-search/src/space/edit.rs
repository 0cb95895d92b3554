//! Spaces that grow while a study runs.

use super::{Axis, Parameter, Space};
use crate::{Domain, Error};

impl Space {
    /// This space with wider ranges or more options. Every point of this space is one of the new
    /// space too, with the same values and the same [`Key`](super::Key).
    ///
    /// `parameters` are those of this space, in the same order and with the same conditions; a range
    /// may be wider (with a step: by whole steps), and options may be appended. `constraints` may be
    /// any: points that break new ones stay valid, as points that [`Space::admits`] refuses.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a parameter is added, removed, renamed, or changed in another way, and
    /// what [`Space::new`] returns.
    pub fn edited(&self, parameters: Vec<Parameter>, constraints: &[&str]) -> Result<Self, Error> {
        let error =
            |parameter: &str, message: String| Err(Error::Parameter { parameter: parameter.into(), message });
        for (i, old) in self.parameters().iter().enumerate() {
            let Some(new) = parameters.get(i).filter(|new| new.name == old.name) else {
                return error(
                    &old.name,
                    "a study keeps its parameters, in their order; this one is missing or moved".into(),
                );
            };
            if new.when != old.when {
                return error(&old.name, "its condition cannot change in a study that has begun".into());
            }
            if let Err(message) = is_same_kind(&old.domain, &new.domain) {
                return error(&old.name, message.into());
            }
        }
        if let Some(added) = parameters.get(self.parameters().len()) {
            return error(
                &added.name,
                "a parameter cannot be added to a study that has begun; start a new study".into(),
            );
        }
        let edited = Self::new(parameters, constraints)?;
        for (parameter, (old, new)) in
            self.parameters().iter().zip(self.inner.axes.iter().zip(&edited.inner.axes))
        {
            if !holds_ends(old, new) {
                return error(
                    &parameter.name,
                    "its range can only become wider, by whole steps if it has a step".into(),
                );
            }
        }
        Ok(edited)
    }
}

/// Whether a domain may become another, whatever their ranges are.
fn is_same_kind(old: &Domain, new: &Domain) -> Result<(), &'static str> {
    match (old, new) {
        (Domain::Ordinal { values }, Domain::Ordinal { values: new })
        | (Domain::Choice { values }, Domain::Choice { values: new }) => {
            if new.starts_with(values) {
                Ok(())
            } else {
                Err("options can be appended, but not removed, changed or moved")
            }
        }
        (Domain::Float { log, step, .. }, Domain::Float { log: new_log, step: new_step, .. })
            if (log, step) != (new_log, new_step) =>
        {
            Err("its scale and step cannot change in a study that has begun")
        }
        (Domain::Int { log, step, .. }, Domain::Int { log: new_log, step: new_step, .. })
            if (log, step) != (new_log, new_step) =>
        {
            Err("its scale and step cannot change in a study that has begun")
        }
        (Domain::Float { .. }, Domain::Float { .. }) | (Domain::Int { .. }, Domain::Int { .. }) => Ok(()),
        (old, new) if old == new => Ok(()),
        _ => Err("its type cannot change in a study that has begun"),
    }
}

/// Whether the first and last value of an axis belong to another.
fn holds_ends(old: &Axis, new: &Axis) -> bool {
    let is_range = matches!(
        old,
        Axis::Linear { .. } | Axis::Log { .. } | Axis::Grid(_) | Axis::Int { .. } | Axis::LogInt { .. }
    );
    let is_held = |u: f64| {
        let end = old.decode(u);
        new.check(end.clone()).as_ref() == Ok(&end)
    };
    !is_range || (is_held(0.0) && is_held(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Literal, Seed};

    fn before() -> Space {
        let parameters = vec![
            Parameter::log_float("lr", 1e-4, 1e-2),
            Parameter::new("drop", Domain::Float { low: 0.1, high: 0.5, log: false, step: Some(0.1) }),
            Parameter::new("width", Domain::Int { low: 16, high: 64, log: false, step: 16 }),
            Parameter::choice("opt", ["sgd", "adamw"]),
            Parameter::float("beta", 0.9, 0.99).when("opt == 'adamw'"),
        ];
        Space::new(parameters, &["width * drop <= 16"]).unwrap()
    }

    fn edit(change: impl FnOnce(&mut Vec<Parameter>)) -> Result<Space, Error> {
        let mut parameters = before().parameters().to_vec();
        change(&mut parameters);
        before().edited(parameters, &[])
    }

    #[test]
    fn points_and_keys_survive_every_legal_edit() {
        let edited = edit(|parameters| {
            parameters[0].domain = Domain::Float { low: 1e-6, high: 1.0, log: true, step: None };
            parameters[1].domain = Domain::Float { low: 0.0, high: 0.9, log: false, step: Some(0.1) };
            parameters[2].domain = Domain::Int { low: 0, high: 128, log: false, step: 16 };
            parameters[3].domain =
                Domain::Choice { values: ["sgd", "adamw", "lion"].map(Literal::from).to_vec() };
        })
        .unwrap();
        let space = before();
        for draw in 0..200 {
            let point = space.sample(&mut Seed::new(1).rng(draw), &[]).unwrap();
            let same = edited.point(point.values().to_vec()).unwrap();
            assert_eq!((&same, edited.key(&same)), (&point, space.key(&point)));
            assert_eq!(edited.literals(&same), space.literals(&point));
        }
    }

    #[test]
    fn other_edits_are_refused() {
        let check = |expected: &str, change: fn(&mut Vec<Parameter>)| {
            let message = edit(change).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        };
        check("lr: its range can only become wider", |p| {
            p[0].domain = Domain::Float { low: 1e-3, high: 1.0, log: true, step: None }
        });
        check("lr: its scale and step cannot change", |p| {
            p[0].domain = Domain::Float { low: 1e-6, high: 1.0, log: false, step: None }
        });
        check("width: its range can only become wider, by whole steps", |p| {
            p[2].domain = Domain::Int { low: 1, high: 128, log: false, step: 16 }
        });
        check("opt: options can be appended", |p| {
            p[3].domain = Domain::Choice { values: vec![Literal::from("adamw"), Literal::from("sgd")] }
        });
        check("opt: its type cannot change", |p| p[3].domain = Domain::Bool);
        check("beta: its condition cannot change", |p| p[4].when = None);
        check("beta: a study keeps its parameters", |p| drop(p.pop()));
        check("new: a parameter cannot be added", |p| p.push(Parameter::bool("new")));
    }
}
