//! The unit-cube view: every point as coordinates in `[0, 1]`.

use super::axis::clamp_unit;
use super::{Axis, Point, Space};
use crate::Value;

impl Space {
    /// Number of coordinates of the unit-cube view: 1 a parameter, n for a permutation of n.
    pub fn unit_len(&self) -> usize {
        self.inner.coordinates.len()
    }

    /// The coordinates of a point, those of inactive parameters included.
    ///
    /// A discrete value is at the middle of its cell; element `e` of a permutation has the
    /// coordinate `(rank + ½) / n`.
    pub fn encode(&self, point: &Point) -> Vec<f64> {
        let mut unit_point = Vec::with_capacity(self.unit_len());
        for (axis, value) in self.inner.axes.iter().zip(&point.values) {
            match value {
                Value::Permutation(order) => {
                    let start = unit_point.len();
                    unit_point.resize(start + order.len(), 0.0);
                    for (rank, element) in order.iter().enumerate() {
                        unit_point[start + *element as usize] = (rank as f64 + 0.5) / order.len() as f64;
                    }
                }
                value => unit_point.push(axis.encode(value)),
            }
        }
        unit_point
    }

    /// The point at these coordinates; those outside `[0, 1]` are clamped, NaN counts as 0.
    ///
    /// `decode(encode(p))` has exactly the discrete values of `p`. A float `x` comes back with an
    /// error of at most 2 · 2⁻⁵³ · (high - low) plus one unit in the last place of `x`; on a log
    /// scale the same holds for `ln x`.
    ///
    /// # Panics
    /// If there are not [`Space::unit_len`] coordinates.
    pub fn decode(&self, unit_point: &[f64]) -> Point {
        assert_eq!(unit_point.len(), self.unit_len(), "one coordinate for each dimension of the unit cube");
        let mut rest = unit_point;
        let mut values = Vec::with_capacity(self.inner.axes.len());
        for axis in &self.inner.axes {
            let (own, after) = rest.split_at(axis.unit_len());
            rest = after;
            values.push(if let Axis::Permutation { .. } = axis { argsort(own) } else { axis.decode(own[0]) });
        }
        self.inner.assemble(values)
    }

    /// Number of cells that a coordinate falls into: `None` for a continuous one (floats without
    /// step, permutations). Cells are equally wide, except for integers on a log scale.
    ///
    /// # Panics
    /// If `coordinate` is not below [`Space::unit_len`].
    pub fn unit_cells(&self, coordinate: usize) -> Option<u64> {
        self.inner.axes[self.inner.coordinates[coordinate] as usize].cells()
    }

    /// The number of values of a parameter; `None` if there are infinitely many or more than 2⁶⁴.
    pub(crate) fn values_of(&self, parameter: usize) -> Option<u64> {
        self.inner.axes[parameter].cardinality()
    }

    /// The `index`-th value of a parameter with finitely many.
    pub(crate) fn nth_value(&self, parameter: usize, index: u64) -> Value {
        self.inner.axes[parameter].nth(index)
    }

    /// The value of a parameter with one coordinate at `u`.
    pub(crate) fn value_at(&self, parameter: usize, u: f64) -> Value {
        self.inner.axes[parameter].decode(u)
    }

    /// The coordinate of the value at `u` of a coordinate that is the only one of its parameter: the
    /// middle of its cell, or `u` itself where there are no cells.
    pub(crate) fn snap(&self, parameter: usize, u: f64) -> f64 {
        let axis = &self.inner.axes[parameter];
        match axis.cells() {
            Some(_) => axis.encode(&axis.decode(u)),
            None => clamp_unit(u),
        }
    }

    /// Where the cell at `u` of a discrete coordinate begins and ends.
    pub(crate) fn unit_cell(&self, coordinate: usize, u: f64) -> (f64, f64) {
        let axis = &self.inner.axes[self.inner.coordinates[coordinate] as usize];
        let cell = axis.cell_at(u.clamp(0.0, 1.0));
        (axis.edge(cell), axis.edge(cell + 1))
    }
}

impl Axis {
    /// The value at the middle of the unit interval; what an unspecified auxiliary value is.
    pub(super) fn middle(&self) -> Value {
        if let Axis::Permutation { n } = self {
            Value::Permutation((0..*n).collect())
        } else {
            self.decode(0.5)
        }
    }

    /// The `index`-th value of a finite axis.
    pub(super) fn nth(&self, index: u64) -> Value {
        let Axis::Permutation { n } = self else { return self.value_at(index) };
        // The digits of `index` in the factorial number system choose among what is left.
        let mut left: Vec<u32> = (0..*n).collect();
        let mut block: u64 = (1..=u64::from(*n)).product();
        let mut rest = index;
        let order = (1..=u64::from(*n)).rev().map(|choices| {
            block /= choices;
            let digit = usize::try_from(rest / block).expect("a digit is below n");
            rest %= block;
            left.remove(digit)
        });
        Value::Permutation(order.collect())
    }
}

/// The order that sorts random keys.
fn argsort(keys: &[f64]) -> Value {
    let key = |element: &u32| clamp_unit(keys[*element as usize]);
    let mut order: Box<[u32]> = (0..).take(keys.len()).collect();
    order.sort_by(|a, b| key(a).total_cmp(&key(b)));
    Value::Permutation(order)
}
