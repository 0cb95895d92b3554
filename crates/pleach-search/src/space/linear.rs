//! Known constraints that are linear in the unit cube.

use super::{Axis, Inner, Space};
use crate::expression::{Expression, Halfspace};

/// The known constraints of a space, seen from the unit cube.
#[derive(Clone, Debug)]
pub(crate) struct Walls {
    /// Those that are linear: parameters stand for their coordinates.
    pub(crate) halfspaces: Vec<Halfspace>,
    /// Whether others have to be checked when this parameter changes.
    pub(crate) checked: Vec<bool>,
}

impl Space {
    /// The known constraints as half-spaces of the unit cube, as far as they are: those on floats
    /// without step, logarithm or condition.
    pub(crate) fn walls(&self) -> Walls {
        let inner = &self.inner;
        let mut walls = Walls { halfspaces: Vec::new(), checked: vec![false; inner.axes.len()] };
        for constraint in &inner.constraints {
            match inner.in_unit_cube(constraint) {
                Some(halfspaces) => walls.halfspaces.extend(halfspaces),
                None => constraint.parameters().iter().for_each(|&p| walls.checked[p] = true),
            }
        }
        if walls.checked.contains(&true) {
            // What exists decides what is checked.
            self.switches().iter().zip(&mut walls.checked).for_each(|(switch, checked)| *checked |= switch);
        }
        walls
    }

    /// Whether conditions of other parameters depend on each parameter.
    pub(crate) fn switches(&self) -> Vec<bool> {
        let mut switches = vec![false; self.inner.axes.len()];
        for (_, condition) in &self.inner.conditions {
            condition.parameters().iter().for_each(|&parameter| switches[parameter] = true);
        }
        switches
    }
}

impl Inner {
    fn in_unit_cube(&self, constraint: &Expression) -> Option<Vec<Halfspace>> {
        let mut halfspaces = constraint.halfspaces()?;
        for halfspace in &mut halfspaces {
            for (parameter, weight) in &mut halfspace.weights {
                let (Axis::Linear { low, high }, None) =
                    (&self.axes[*parameter], &self.parameters[*parameter].when)
                else {
                    return None;
                };
                halfspace.bound -= *weight * low;
                *weight *= high - low;
            }
            let is_finite =
                halfspace.bound.is_finite() && halfspace.weights.iter().all(|(_, w)| w.is_finite());
            is_finite.then_some(())?;
        }
        Some(halfspaces)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Parameter, Seed, Space};

    #[test]
    fn half_spaces_say_what_the_constraints_say() {
        let space = |constraints: &[&str]| {
            let parameters = vec![
                Parameter::float("a", -1.0, 3.0),
                Parameter::float("b", 0.0, 10.0),
                Parameter::int("k", 0, 9),
            ];
            Space::new(parameters, constraints).unwrap()
        };
        for (text, count) in [
            ("a + 2 * b <= 9", Some(1)),
            ("0 < 3 * (b - a) / 4 and not (b > 7 - -a)", Some(2)),
            ("1 <= b - a / 2 <= 6", Some(2)),
            ("a * b < 1", None),
            ("a < k", None),
            ("a < 0 or b < 1", None),
        ] {
            let space = space(&[text]);
            let walls = space.walls();
            assert_eq!(walls.halfspaces.len(), count.unwrap_or(0), "{text}");
            assert_eq!(walls.checked[0], count.is_none(), "{text}");
            if count.is_some() {
                let mut rng = Seed::new(1).rng(0);
                for _ in 0..500 {
                    let u: Vec<f64> = (0..3).map(|_| rng.unit()).collect();
                    let is_inside = walls.halfspaces.iter().all(|halfspace| {
                        halfspace.weights.iter().map(|(p, w)| w * u[*p]).sum::<f64>() <= halfspace.bound
                    });
                    assert_eq!(is_inside, space.admits(&space.decode(&u)), "{text} at {u:?}");
                }
            }
        }
    }
}
