//! Points and their identity.

use xxhash_rust::xxh3::xxh3_128;

use crate::Value;
use crate::expression::View;

/// The identity of a point: equal for two points iff their active values are equal.
///
/// It depends on native values alone, so it stays the same when a range is widened or an option
/// appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

/// A point of a [`Space`](crate::Space): one value for each parameter, inactive ones included.
///
/// The values of inactive parameters are auxiliary: they keep the unit-cube view complete, and
/// keys, literals and constraints never see them.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub(super) values: Box<[Value]>,
    /// `None` if every parameter is active.
    pub(super) active: Option<Box<[bool]>>,
}

impl Point {
    /// One value for each parameter, in the order of the space.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Whether parameter `index` exists at this point.
    pub fn is_active(&self, index: usize) -> bool {
        self.active.as_ref().is_none_or(|active| active[index])
    }

    /// The point as expressions see it.
    pub(crate) fn view(&self) -> View<'_> {
        View { values: &self.values, active: self.active.as_deref() }
    }

    /// A hash of (index, value) of every active parameter. Two points that differ share one with
    /// probability 2⁻¹²⁸, which is taken as never.
    pub(super) fn key(&self) -> Key {
        let mut bytes = Vec::with_capacity(12 * self.values.len());
        for (index, value) in (0_u32..).zip(&self.values) {
            if !self.is_active(index as usize) {
                continue;
            }
            bytes.extend_from_slice(&index.to_le_bytes());
            let word = match value {
                // Adding 0.0 turns -0.0 into 0.0.
                Value::Float(x) => (x + 0.0).to_bits(),
                Value::Int(k) => k.cast_unsigned(),
                Value::Bool(b) => u64::from(*b),
                Value::Choice(option) => u64::from(*option),
                Value::Permutation(order) => {
                    bytes.extend(order.iter().flat_map(|element| element.to_le_bytes()));
                    continue;
                }
            };
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        Key(xxh3_128(&bytes))
    }
}
