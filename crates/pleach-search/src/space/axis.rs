//! One parameter, checked and ready for arithmetic: native values, cells, and the unit interval.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use super::grid::Grid;
use crate::{Domain, Literal, Rng, Value};

/// Ranges with more cells than this cannot be told apart in the unit interval.
const MAX_CELLS: u64 = 1 << 50;
/// The largest end of a logarithmic integer range whose values survive the round trip through `ln`.
const MAX_LOG_INT: i64 = 1 << 40;
/// The longest permutation; each element is a coordinate of the unit cube.
const MAX_PERMUTATION: u32 = 1 << 16;

/// The index of each option by its [`label`], which is a hash already.
type OptionIndex = HashMap<u128, u32, BuildHasherDefault<Hashed>>;

/// Takes a number that is a hash for its own hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u128(&mut self, hash: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough")]
        let half = hash as u64;
        self.0 = half;
    }
}

/// A checked [`Domain`].
///
/// A discrete axis numbers its values as cells `0..cells`; a continuous one has none.
#[derive(Clone, Debug)]
pub(crate) enum Axis {
    Linear {
        low: f64,
        high: f64,
    },
    Log {
        low: f64,
        high: f64,
        ln_low: f64,
        ln_width: f64,
    },
    Grid(Grid),
    Int {
        low: i64,
        step: i64,
        cells: u64,
    },
    /// Value `v` owns the part `[ln(v - ½), ln(v + ½)]` of the logarithmic scale.
    LogInt {
        low: i64,
        cells: u64,
        ln_low: f64,
        ln_width: f64,
    },
    Options {
        ordered: bool,
        index: OptionIndex,
    },
    Bool,
    Permutation {
        n: u32,
    },
}

impl Axis {
    /// Checks a domain; the message of the error says what to write instead.
    pub(crate) fn new(domain: &Domain) -> Result<Self, String> {
        match *domain {
            Domain::Float { low, high, log, step } => float(low, high, log, step),
            Domain::Int { low, high, log, step } => int(low, high, log, step),
            Domain::Ordinal { ref values } => options(values, true),
            Domain::Choice { ref values } => options(values, false),
            Domain::Bool => Ok(Axis::Bool),
            Domain::Permutation { n: n @ 1..=MAX_PERMUTATION } => Ok(Axis::Permutation { n }),
            Domain::Permutation { n } => {
                Err(format!("a permutation orders 1 to {MAX_PERMUTATION} elements, not {n}"))
            }
        }
    }

    /// Number of values of a discrete axis; `None` for continuous ones and permutations.
    pub(crate) fn cells(&self) -> Option<u64> {
        match self {
            Axis::Linear { .. } | Axis::Log { .. } | Axis::Permutation { .. } => None,
            Axis::Grid(grid) => Some(grid.cells),
            Axis::Int { cells, .. } | Axis::LogInt { cells, .. } => Some(*cells),
            Axis::Options { index, .. } => Some(index.len() as u64),
            Axis::Bool => Some(2),
        }
    }

    /// Number of values; `None` if there are infinitely many or more than a `u64` counts.
    pub(super) fn cardinality(&self) -> Option<u64> {
        match self {
            Axis::Permutation { n } => (1..=u64::from(*n)).try_fold(1_u64, u64::checked_mul),
            _ => self.cells(),
        }
    }

    /// Whether there is but one value.
    pub(super) fn is_fixed(&self) -> bool {
        self.cardinality() == Some(1)
    }

    /// Number of coordinates in the unit cube.
    pub(super) fn unit_len(&self) -> usize {
        if let Axis::Permutation { n } = self { *n as usize } else { 1 }
    }

    /// The value of a cell.
    pub(crate) fn value_at(&self, cell: u64) -> Value {
        match self {
            Axis::Grid(grid) => Value::Float(grid.value(cell)),
            Axis::Int { low, .. } | Axis::LogInt { low, .. } => {
                let step = if let Axis::Int { step, .. } = self { *step } else { 1 };
                // The product fits whenever the cell exists; wrapping covers ranges across i64.
                Value::Int(low.wrapping_add(step.wrapping_mul(cell.cast_signed())))
            }
            Axis::Options { .. } => Value::Choice(u32::try_from(cell).expect("options are counted in u32")),
            Axis::Bool => Value::Bool(cell == 1),
            Axis::Linear { .. } | Axis::Log { .. } | Axis::Permutation { .. } => {
                unreachable!("continuous axes have no cells")
            }
        }
    }

    /// The cell of a value that belongs to this axis; 0 on axes without cells.
    pub(super) fn cell_of(&self, value: &Value) -> u64 {
        match (self, value) {
            (Axis::Grid(grid), Value::Float(x)) => grid.cell(*x),
            (Axis::Int { low, step, .. }, Value::Int(k)) => {
                k.wrapping_sub(*low).cast_unsigned() / step.cast_unsigned()
            }
            (Axis::LogInt { low, .. }, Value::Int(k)) => (k - low).cast_unsigned(),
            (_, Value::Choice(index)) => u64::from(*index),
            (_, Value::Bool(b)) => u64::from(*b),
            _ => 0,
        }
    }

    /// The value at `u` of the unit interval; `u` is clamped, NaN counts as 0.
    pub(super) fn decode(&self, u: f64) -> Value {
        let u = clamp_unit(u);
        match self {
            Axis::Linear { low, high } => Value::Float(between(u.mul_add(high - low, *low), u, *low, *high)),
            Axis::Log { low, high, ln_low, ln_width } => {
                Value::Float(between(u.mul_add(*ln_width, *ln_low).exp(), u, *low, *high))
            }
            _ => self.value_at(self.cell_at(u)),
        }
    }

    /// The cell that `u`, in `[0, 1]`, falls into.
    pub(crate) fn cell_at(&self, u: f64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounding down is meant, and `as` clamps"
        )]
        if let Axis::LogInt { low, cells, ln_low, ln_width } = self {
            let rounded = u.mul_add(*ln_width, *ln_low).exp().round();
            ((rounded - *low as f64).max(0.0) as u64).min(cells - 1)
        } else {
            let cells = self.cells().expect("only discrete axes have cells");
            ((u * cells as f64) as u64).min(cells - 1)
        }
    }

    /// Where cell `cell` begins in the unit interval; `edge(cells)` is 1.
    pub(super) fn edge(&self, cell: u64) -> f64 {
        if let Axis::LogInt { low, ln_low, ln_width, .. } = self {
            (((low + cell.cast_signed()) as f64 - 0.5).ln() - ln_low) / ln_width
        } else {
            cell as f64 / self.cells().expect("only discrete axes have cells") as f64
        }
    }

    /// The coordinate of a value of an axis that has one coordinate.
    pub(super) fn encode(&self, value: &Value) -> f64 {
        match (self, value) {
            (Axis::Linear { low, high }, Value::Float(x)) => (x - low) / (high - low),
            (Axis::Log { ln_low, ln_width, .. }, Value::Float(x)) => {
                ((x.ln() - ln_low) / ln_width).clamp(0.0, 1.0)
            }
            (Axis::LogInt { ln_low, ln_width, .. }, Value::Int(k)) => ((*k as f64).ln() - ln_low) / ln_width,
            _ => match self.cells() {
                Some(cells) => (self.cell_of(value) as f64 + 0.5) / cells as f64,
                None => unreachable!("the point belongs to another space"),
            },
        }
    }

    /// A uniform draw.
    pub(super) fn draw(&self, rng: &mut Rng) -> Value {
        if let Axis::Permutation { n } = self {
            let mut order: Box<[u32]> = (0..*n).collect();
            rng.shuffle(&mut order);
            return Value::Permutation(order);
        }
        self.decode(rng.unit())
    }

    /// The value in canonical form if it belongs to this axis, else what is wrong with it.
    pub(super) fn check(&self, value: Value) -> Result<Value, String> {
        match (self, value) {
            (Axis::Linear { low, high } | Axis::Log { low, high, .. }, Value::Float(x)) => {
                if *low <= x && x <= *high {
                    Ok(Value::Float(x))
                } else {
                    Err(format!("outside [{low:?}, {high:?}]"))
                }
            }
            (Axis::Grid(grid), Value::Float(x)) => grid.nearest(x).map(Value::Float),
            (Axis::Int { low, step, cells }, Value::Int(k)) => {
                let offset = i128::from(k) - i128::from(*low);
                let high = i128::from(*low) + i128::from(*step) * i128::from(cells - 1);
                if offset < 0 || i128::from(k) > high {
                    Err(format!("outside {low}..={high}"))
                } else if offset % i128::from(*step) != 0 {
                    Err(format!("not a multiple of {step} away from {low}"))
                } else {
                    Ok(Value::Int(k))
                }
            }
            (Axis::LogInt { low, cells, .. }, Value::Int(k)) => {
                let high = low + (cells - 1).cast_signed();
                if (*low..=high).contains(&k) {
                    Ok(Value::Int(k))
                } else {
                    Err(format!("outside {low}..={high}"))
                }
            }
            (Axis::Options { index, .. }, Value::Choice(option)) => {
                if (option as usize) < index.len() {
                    Ok(Value::Choice(option))
                } else {
                    Err(format!("there are only {} options", index.len()))
                }
            }
            (Axis::Bool, Value::Bool(b)) => Ok(Value::Bool(b)),
            (Axis::Permutation { n }, Value::Permutation(order)) => {
                let mut seen = vec![false; *n as usize];
                let fits = order
                    .iter()
                    .all(|&k| seen.get_mut(k as usize).is_some_and(|seen| !std::mem::replace(seen, true)));
                if fits && order.len() == seen.len() {
                    Ok(Value::Permutation(order))
                } else {
                    Err(format!("not an order of the numbers 0 to {}", n - 1))
                }
            }
            _ => Err(format!("expected {}", self.kind())),
        }
    }

    /// The value that a person wrote; `domain` is the one of this axis.
    pub(super) fn read(&self, domain: &Domain, literal: &Literal) -> Result<Value, String> {
        let value = match (self, literal) {
            (Axis::Linear { .. } | Axis::Log { .. } | Axis::Grid(_), Literal::Int(k)) => {
                Value::Float(*k as f64)
            }
            (Axis::Int { .. } | Axis::LogInt { .. }, Literal::Float(x)) => match whole(*x) {
                Some(k) => Value::Int(k),
                None => return Err("expected a whole number".into()),
            },
            (Axis::Options { .. }, literal) => match self.option(literal) {
                Some(index) => Value::Choice(index),
                None => return Err(format!("the options are {}", option_list(domain))),
            },
            (_, Literal::Int(k)) => Value::Int(*k),
            (_, Literal::Float(x)) => Value::Float(*x),
            (_, Literal::Bool(b)) => Value::Bool(*b),
            (_, Literal::List(order)) => Value::Permutation(order.as_slice().into()),
            (_, Literal::Text(_)) => return Err(format!("expected {}, not text", self.kind())),
        };
        self.check(value)
    }

    /// The index of an option.
    pub(crate) fn option(&self, literal: &Literal) -> Option<u32> {
        let Axis::Options { index, .. } = self else { return None };
        index.get(&label(literal)?).copied()
    }

    /// What its values are, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Axis::Linear { .. } | Axis::Log { .. } | Axis::Grid(_) => "a number",
            Axis::Int { .. } | Axis::LogInt { .. } => "a whole number",
            Axis::Options { .. } => "one of the options",
            Axis::Bool => "true or false",
            Axis::Permutation { .. } => "a permutation",
        }
    }
}

/// A coordinate brought into the unit interval; NaN counts as 0.
pub(super) fn clamp_unit(u: f64) -> f64 {
    if u > 0.0 { u.min(1.0) } else { 0.0 }
}

/// The value as a person reads it.
pub(super) fn write(domain: &Domain, value: &Value) -> Literal {
    match value {
        Value::Choice(option) => domain.options()[*option as usize].clone(),
        Value::Float(x) => Literal::Float(*x),
        Value::Int(k) => Literal::Int(*k),
        Value::Bool(b) => Literal::Bool(*b),
        Value::Permutation(order) => Literal::List(order.to_vec()),
    }
}

/// The first options, for messages.
pub(crate) fn option_list(domain: &Domain) -> String {
    const SHOWN: usize = 12;
    let values = domain.options();
    let list = values.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if values.len() > SHOWN { format!("{list}, … ({} in all)", values.len()) } else { list }
}

/// Corrects the rounding of a decoded value: the ends of the unit interval are the ends of the range.
fn between(x: f64, u: f64, low: f64, high: f64) -> f64 {
    // Adding 0.0 turns -0.0 into 0.0.
    (if u >= 1.0 { high } else { x.clamp(low, high) }) + 0.0
}

/// The integer that a float is.
pub(crate) fn whole(x: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "checked: the float is a small integer")]
    (x.fract() == 0.0 && x.abs() < (1_u64 << 53) as f64).then_some(x as i64)
}

/// The identity of an option: 1 and 1.0 are the same, and no list is an option.
fn label(literal: &Literal) -> Option<u128> {
    Some(match literal {
        Literal::Bool(b) => xxh3_128_with_seed(&[u8::from(*b)], 0),
        Literal::Int(k) => xxh3_128_with_seed(&k.to_le_bytes(), 1),
        Literal::Float(x) => match whole(*x) {
            Some(k) => xxh3_128_with_seed(&k.to_le_bytes(), 1),
            None => xxh3_128_with_seed(&x.to_bits().to_le_bytes(), 2),
        },
        Literal::Text(text) => xxh3_128_with_seed(text.as_bytes(), 3),
        Literal::List(_) => return None,
    })
}

#[expect(clippy::float_cmp, reason = "a range of one value has equal ends")]
fn float(low: f64, high: f64, log: bool, step: Option<f64>) -> Result<Axis, String> {
    if !low.is_finite() || !high.is_finite() || !(high - low).is_finite() {
        return Err("low, high and their difference must be finite".into());
    }
    if low > high {
        return Err(format!("low {low:?} is above high {high:?}"));
    }
    if log && low <= 0.0 {
        return Err(format!("a log scale needs low above 0, not {low:?}"));
    }
    match step {
        Some(_) if log => {
            Err("log and step exclude each other; list the values as an ordinal instead".into())
        }
        Some(step) => Grid::new(low, high, step, MAX_CELLS).map(Axis::Grid),
        None if low == high => Grid::new(low, high, 1.0, 1).map(Axis::Grid),
        None if log => Ok(Axis::Log { low, high, ln_low: low.ln(), ln_width: high.ln() - low.ln() }),
        None => Ok(Axis::Linear { low, high }),
    }
}

fn int(low: i64, high: i64, log: bool, step: i64) -> Result<Axis, String> {
    if low > high {
        return Err(format!("low {low} is above high {high}"));
    }
    if step < 1 {
        return Err(format!("step must be at least 1, not {step}"));
    }
    let cells = (high.wrapping_sub(low).cast_unsigned() / step.cast_unsigned()).wrapping_add(1);
    if log {
        if step != 1 {
            return Err("log and step exclude each other; list the values as an ordinal instead".into());
        }
        if low < 1 {
            return Err(format!("a log scale needs low above 0, not {low}"));
        }
        if high > MAX_LOG_INT {
            return Err(format!("a log scale of integers ends at 2^40 = {MAX_LOG_INT}; use a log float"));
        }
        let ln_low = (low as f64 - 0.5).ln();
        return Ok(Axis::LogInt { low, cells, ln_low, ln_width: (high as f64 + 0.5).ln() - ln_low });
    }
    // `cells` is 0 when the range covers all of i64.
    if cells == 0 || cells > MAX_CELLS {
        return Err("the range has more than 2^50 values; use a larger step or a float".into());
    }
    Ok(Axis::Int { low, step, cells })
}

fn options(values: &[Literal], ordered: bool) -> Result<Axis, String> {
    if values.is_empty() {
        return Err("there must be at least one option".into());
    }
    if u32::try_from(values.len()).is_err() {
        return Err("there may be at most 2^32 - 1 options".into());
    }
    let mut index = OptionIndex::with_capacity_and_hasher(values.len(), BuildHasherDefault::default());
    for (i, value) in (0..).zip(values) {
        let Some(label) = label(value) else {
            return Err(format!("{value} is a list; options are text, numbers or booleans"));
        };
        if value.as_f64().is_some_and(|x| !x.is_finite()) {
            return Err(format!("option {value} is not a finite number"));
        }
        if index.insert(label, i).is_some() {
            return Err(format!("option {value} is listed twice"));
        }
    }
    Ok(Axis::Options { ordered, index })
}
