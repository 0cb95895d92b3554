//! Expressions over regions: every value that a point of the region can give is enclosed.
//!
//! Rounding is monotone, so the results of `+ - * /`, `sqrt`, `floor`, … at the ends of intervals
//! bound the rounded results between them, and nothing need be widened; `exp`, `log` and powers are
//! widened, since libraries do not round them correctly.

use super::condition::{Condition, Number, Truth, apply, arithmetic, at_most, compare, remainder, same};
use super::parse::{Arithmetic, Comparison, Function};
use crate::space::Axis;

/// The values that a parameter can take in a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    /// Of a continuous axis.
    Reals { low: f64, high: f64 },
    /// Of a discrete axis.
    Cells { first: u64, last: u64 },
}

/// A box of the space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region<'a> {
    pub(crate) axes: &'a [Axis],
    /// Where the side of each parameter stands in `sides` and `exists`.
    pub(crate) slots: &'a [usize],
    pub(crate) sides: &'a [Side],
    /// Whether parameters exist in the region.
    pub(crate) exists: &'a [Truths],
}

/// A set of truths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truths(u8);

impl Truths {
    const NONE: Truths = Truths(0);

    /// Just this one.
    pub(crate) fn only(truth: Truth) -> Self {
        Self(1 << truth as u8)
    }

    pub(crate) fn contains(self, truth: Truth) -> bool {
        self.0 & Self::only(truth).0 != 0
    }

    #[cfg(test)]
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn with(self, truth: Truth, possible: bool) -> Self {
        if possible { Self(self.0 | Self::only(truth).0) } else { self }
    }

    /// Whether a constraint of these truths is kept all over the region.
    pub(crate) fn always_kept(self) -> bool {
        !self.contains(Truth::False) && !self.contains(Truth::Undefined)
    }

    /// Whether a constraint of these truths is kept nowhere in the region.
    pub(crate) fn never_kept(self) -> bool {
        !self.contains(Truth::True) && !self.contains(Truth::Absent)
    }

    fn members(self) -> impl Iterator<Item = Truth> {
        Truth::ALL.into_iter().filter(move |truth| self.contains(*truth))
    }

    fn not(self) -> Self {
        self.members().fold(Self::NONE, |set, truth| set.with(truth.not(), true))
    }

    fn combine(self, other: Self, join: fn(Truth, Truth) -> Truth) -> Self {
        self.members()
            .fold(Self::NONE, |set, a| other.members().fold(set, |set, b| set.with(join(a, b), true)))
    }
}

impl Region<'_> {
    fn side(&self, parameter: usize) -> Side {
        self.sides[self.slots[parameter]]
    }

    /// The first and last cell of a discrete side.
    fn cells(&self, parameter: usize) -> (u64, u64) {
        match self.side(parameter) {
            Side::Cells { first, last } => (first, last),
            Side::Reals { .. } => unreachable!("checked when compiled: the parameter is discrete"),
        }
    }

    fn exists(&self, parameter: usize) -> Truths {
        self.exists[self.slots[parameter]]
    }

    /// `truths` where the parameter exists, absent where it does not.
    fn given(&self, parameter: usize, truths: Truths) -> Truths {
        let exists = self.exists(parameter);
        let present = if exists.contains(Truth::True) { truths } else { Truths::NONE };
        present.with(Truth::Absent, exists != Truths::only(Truth::True))
    }
}

impl Condition {
    /// The truths that it may take in a region.
    pub(super) fn over(&self, region: &Region<'_>) -> Truths {
        match self {
            Condition::Constant(holds) => Truths::only(Truth::from(*holds)),
            Condition::Flag(parameter) => {
                let (first, last) = region.cells(*parameter);
                region.given(
                    *parameter,
                    Truths::NONE.with(Truth::False, first == 0).with(Truth::True, last == 1),
                )
            }
            Condition::Not(inner) => inner.over(region).not(),
            Condition::And(items) => {
                let mut truths = Truths::only(Truth::True);
                for item in items {
                    truths = truths.combine(item.over(region), Truth::and);
                    if truths == Truths::only(Truth::False) {
                        break;
                    }
                }
                truths
            }
            Condition::Compare(comparison, left, right) => {
                compare_ranges(*comparison, left.over(region), right.over(region))
            }
            Condition::Same(left, right) => left.over(region).combine(right.over(region), same),
            Condition::Option { parameter, options } => {
                let (first, last) = region.cells(*parameter);
                let below = |limit: u64| options.partition_point(|&option| u64::from(option) < limit) as u64;
                let inside = below(last + 1) - below(first);
                let truths =
                    Truths::NONE.with(Truth::True, inside > 0).with(Truth::False, inside <= last - first);
                region.given(*parameter, truths)
            }
            Condition::SameOption { parameter, other, options } => {
                let ((first, last), (from, to)) = (region.cells(*parameter), region.cells(*other));
                let truths = if first == last {
                    let index = usize::try_from(first).expect("options are counted in u32");
                    let wanted = options[index].map(u64::from).filter(|wanted| (from..=to).contains(wanted));
                    Truths::NONE
                        .with(Truth::True, wanted.is_some())
                        .with(Truth::False, wanted.is_none() || from < to)
                } else {
                    Truths::NONE.with(Truth::True, true).with(Truth::False, true)
                };
                region.given(*parameter, region.given(*other, truths))
            }
        }
    }
}

/// The values a number may take in a region: those in `[low, high]` (none if `low > high`), NaN, or
/// absent.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: f64,
    high: f64,
    nan: bool,
    absent: bool,
}

impl Range {
    const EMPTY: Range = Range { low: f64::INFINITY, high: f64::NEG_INFINITY, nan: false, absent: false };

    fn new(low: f64, high: f64) -> Self {
        Self { low, high, ..Self::EMPTY }
    }

    fn is_empty(self) -> bool {
        self.low > self.high
    }

    fn contains(self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    fn is_unbounded(self) -> bool {
        self.low == f64::NEG_INFINITY || self.high == f64::INFINITY
    }

    /// The smallest range around some numbers; a NaN among them only raises the flag.
    fn around(numbers: impl IntoIterator<Item = f64>) -> Self {
        numbers.into_iter().fold(Self::EMPTY, |range, x| Self {
            low: range.low.min(x),
            high: range.high.max(x),
            nan: range.nan || x.is_nan(),
            ..range
        })
    }

    /// Makes room for functions that are not rounded correctly.
    fn widened(self) -> Self {
        if self.is_empty() {
            return self;
        }
        Self { low: self.low.next_down().next_down(), high: self.high.next_up().next_up(), ..self }
    }
}

fn compare_ranges(comparison: Comparison, a: Range, b: Range) -> Truths {
    let truths =
        Truths::NONE.with(Truth::Absent, a.absent || b.absent).with(Truth::Undefined, a.nan || b.nan);
    if a.is_empty() || b.is_empty() {
        return truths;
    }
    let (may, must) = match comparison {
        Comparison::Less | Comparison::AtMost => {
            (compare(comparison, a.low, b.high), compare(comparison, a.high, b.low))
        }
        Comparison::Greater | Comparison::AtLeast => {
            (compare(comparison, a.high, b.low), compare(comparison, a.low, b.high))
        }
        Comparison::Equal | Comparison::Unequal => {
            let may = at_most(a.low, b.high) && at_most(b.low, a.high);
            let must = at_most(a.high, b.low) && at_most(b.high, a.low);
            if comparison == Comparison::Equal { (may, must) } else { (!must, !may) }
        }
    };
    truths.with(Truth::True, may).with(Truth::False, !must)
}

impl Number {
    fn over(&self, region: &Region<'_>) -> Range {
        match self {
            Number::Constant(x) => Range::new(*x, *x),
            Number::Parameter(parameter) => given(region, *parameter, || match region.side(*parameter) {
                Side::Reals { low, high } => Range::new(low, high),
                Side::Cells { first, last } => {
                    let axis = &region.axes[*parameter];
                    let number = |cell| axis.value_at(cell).as_f64().unwrap_or(f64::NAN);
                    Range::new(number(first), number(last))
                }
            }),
            Number::Option { parameter, numbers, sorted } => given(region, *parameter, || {
                let (first, last) = region.cells(*parameter);
                let index = |cell| usize::try_from(cell).expect("options are counted in u32");
                let numbers = &numbers[index(first)..=index(last)];
                match numbers {
                    [first, .., last] if *sorted => Range::new(*first, *last),
                    _ => Range::around(numbers.iter().copied()),
                }
            }),
            Number::Negate(inner) => {
                let range = inner.over(region);
                Range { low: -range.high, high: -range.low, ..range }
            }
            Number::Arithmetic(operator, left, right) => {
                let (a, b) = (left.over(region), right.over(region));
                let mut range =
                    if a.is_empty() || b.is_empty() { Range::EMPTY } else { calculate(*operator, a, b) };
                range.nan |= a.nan || b.nan;
                range.absent = a.absent || b.absent;
                range
            }
            Number::Count(items) => {
                let mut range = Range::new(0.0, 0.0);
                for truths in items.iter().map(|item| item.over(region)) {
                    range.low += f64::from(truths == Truths::only(Truth::True));
                    range.high += f64::from(truths.contains(Truth::True));
                    range.nan |= truths.contains(Truth::Undefined);
                }
                range
            }
            Number::Call(function, arguments) => {
                let mut joined = arguments[0].over(region);
                for argument in &arguments[1..] {
                    joined = extreme(*function, joined, argument.over(region));
                }
                call(*function, joined)
            }
        }
    }
}

fn given(region: &Region<'_>, parameter: usize, range: impl FnOnce() -> Range) -> Range {
    let exists = region.exists(parameter);
    let present = if exists.contains(Truth::True) { range() } else { Range::EMPTY };
    Range { absent: exists != Truths::only(Truth::True), ..present }
}

/// `min` and `max` of two ranges.
fn extreme(function: Function, a: Range, b: Range) -> Range {
    let numbers = match function {
        _ if a.is_empty() || b.is_empty() => Range::EMPTY,
        Function::Min => Range::new(a.low.min(b.low), a.high.min(b.high)),
        _ => Range::new(a.low.max(b.low), a.high.max(b.high)),
    };
    Range { nan: a.nan || b.nan, absent: a.absent || b.absent, ..numbers }
}

/// A function of one argument, over a range.
fn call(function: Function, x: Range) -> Range {
    if x.is_empty() {
        return x;
    }
    match function {
        Function::Min | Function::Max | Function::Count => x,
        Function::Floor | Function::Ceil => {
            Range { low: apply(function, x.low), high: apply(function, x.high), ..x }
        }
        Function::Abs => {
            let (a, b) = (x.low.abs(), x.high.abs());
            Range { low: if x.contains(0.0) { 0.0 } else { a.min(b) }, high: a.max(b), ..x }
        }
        Function::Exp => Range { low: x.low.exp(), high: x.high.exp(), ..x }.widened(),
        // Not defined below 0.
        Function::Sqrt | Function::Log => {
            let nan = x.nan || x.low < 0.0;
            if x.high < 0.0 {
                return Range { nan, absent: x.absent, ..Range::EMPTY };
            }
            let range = Range {
                low: apply(function, x.low.max(0.0)),
                high: apply(function, x.high.max(0.0)),
                nan,
                ..x
            };
            if function == Function::Log { range.widened() } else { range }
        }
    }
}

/// An operation on two ranges that are not empty.
fn calculate(operator: Arithmetic, a: Range, b: Range) -> Range {
    let corners = || {
        [(a.low, b.low), (a.low, b.high), (a.high, b.low), (a.high, b.high)]
            .map(|(x, y)| arithmetic(operator, x, y))
    };
    let everything = Range { nan: true, ..Range::new(f64::NEG_INFINITY, f64::INFINITY) };
    match operator {
        // Infinite ends may cancel to NaN; the other numbers are then anywhere.
        Arithmetic::Add | Arithmetic::Subtract => {
            let range = Range::around(corners());
            if range.nan { everything } else { range }
        }
        Arithmetic::Multiply => {
            let range = Range::around(corners());
            // 0 · ∞ is NaN, and also where 0 is not a corner.
            let nan =
                range.nan || (a.contains(0.0) && b.is_unbounded()) || (b.contains(0.0) && a.is_unbounded());
            if range.nan { everything } else { Range { nan, ..range } }
        }
        Arithmetic::Divide => {
            let range = Range::around(corners());
            if b.contains(0.0) || range.nan { everything } else { range }
        }
        Arithmetic::Remainder => remainders(a, b),
        Arithmetic::Power => powers(a, b, corners),
    }
}

#[expect(clippy::float_cmp, reason = "a range of one value has equal ends")]
fn remainders(a: Range, b: Range) -> Range {
    let nan = b.contains(0.0) || a.is_unbounded() || b.is_unbounded();
    if !nan && b.low == b.high {
        let (first, last) = (remainder(a.low, b.low), remainder(a.high, b.low));
        // Inside one period the remainder grows with `a`.
        if a.low == a.high || (a.high - a.low < b.low.abs() && first < last) {
            return Range::new(first, last);
        }
    }
    // It lies between 0 and the divisor; an infinite divisor leaves `a` as it is.
    let rest = if b.is_unbounded() { a } else { Range::EMPTY };
    Range { nan, ..Range::new(b.low.min(0.0).min(rest.low), b.high.max(0.0).max(rest.high)) }
}

#[expect(clippy::float_cmp, reason = "a range of one value has equal ends")]
fn powers(a: Range, b: Range, corners: impl Fn() -> [f64; 4]) -> Range {
    let exponent = b.low;
    let whole = b.low == b.high && exponent.fract() == 0.0 && exponent.abs() < (1_u64 << 53) as f64;
    let defined = a.low >= 0.0 || whole;
    // Negative powers of 0 are infinite, with the sign of the zero.
    if !defined || (exponent < 0.0 && a.contains(0.0)) {
        return Range { nan: !defined, ..Range::new(f64::NEG_INFINITY, f64::INFINITY) };
    }
    // For a base from 0 on, a power is monotone in either argument; a whole power is monotone on
    // either side of 0, where even ones have their minimum.
    let ends = Range::around(corners()).widened();
    let dips = a.low < 0.0 && a.contains(0.0) && exponent % 2.0 == 0.0;
    if dips { Range { low: ends.low.min(0.0_f64.powf(exponent)), ..ends } } else { ends }
}
