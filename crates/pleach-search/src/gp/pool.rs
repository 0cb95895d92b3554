//! Every point of a small finite space, and how far apart they are.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::layout::Layout;
use crate::linalg::Triangle;
use crate::{Descriptor, Domain, Key, Parameter, Point, Problem, Rng, Space};

/// Combinations of a space that is searched as a whole.
const MAX_COMBINATIONS: u64 = 100_000;

/// Distance of the two ends of an ordered parameter; that of two options without order is 1, and
/// two random ranks are then about as far apart as two random options.
const ORDERED_WIDTH: f64 = 1.5;

/// Whether a space is small enough for a [`Pool`], and none of its numbers has so many values that it is
/// better taken for a continuous one.
pub(crate) fn suits(space: &Space) -> bool {
    const MAX_NUMBERS: u64 = 32;
    let has_many = |(index, parameter): (usize, &Parameter)| {
        matches!(parameter.domain, Domain::Float { .. } | Domain::Int { .. })
            && space.values_of(index).is_none_or(|count| count > MAX_NUMBERS)
    };
    space.cardinality().is_some_and(|count| count <= MAX_COMBINATIONS)
        && !space.parameters().iter().enumerate().any(has_many)
}

/// All points of a finite space that keep the known constraints, each once.
#[derive(Debug)]
pub(crate) struct Pool {
    space: Space,
    /// The combination of each point (see [`Space::nth`]).
    combinations: Vec<u32>,
    index: HashMap<Key, u32>,
    axes: Vec<Axis>,
    /// The axes in two runs.
    halves: [Half; 2],
    views: Vec<View>,
}

/// What of a run of axes is the same for many points: a cell is one symbol on each of its axes.
#[derive(Debug)]
struct Half {
    axes: Range<usize>,
    n_cells: usize,
    /// The cell of each point.
    cells: Vec<u32>,
}

impl Pool {
    /// The points of a space for which [`suits`] holds.
    pub(crate) fn new(problem: &Problem) -> Self {
        let space = problem.space();
        let axes: Vec<Axis> = (0..space.parameters().len()).map(|index| Axis::new(space, index)).collect();
        let halves = split(&axes);
        let mut pool = Self {
            space: space.clone(),
            combinations: Vec::new(),
            index: HashMap::new(),
            axes,
            halves,
            views: Vec::new(),
        };
        let mut points = Vec::new();
        for combination in 0..space.cardinality().expect("the space is finite") {
            let point = space.nth(combination);
            if !space.admits(&point) {
                continue;
            }
            let next = pool.len();
            // Combinations that differ only in parameters that do not exist are the same point.
            let entry = pool.index.entry(space.key(&point)).or_insert(next);
            if *entry != next {
                continue;
            }
            pool.combinations.push(u32::try_from(combination).expect("the space is small"));
            for half in &mut pool.halves {
                half.cells.push(cell(
                    &pool.axes[half.axes.clone()],
                    half.axes.clone(),
                    &point,
                    combination,
                    space,
                ));
            }
            points.push(point);
        }
        pool.views = problem.descriptors().iter().map(|descriptor| View::new(descriptor, &points)).collect();
        pool
    }

    /// Number of points.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.combinations.len()).expect("the space is small")
    }

    /// The parameters.
    pub(crate) fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Number of descriptors.
    pub(crate) fn n_views(&self) -> usize {
        self.views.len()
    }

    /// A point.
    pub(crate) fn point(&self, index: u32) -> Point {
        self.space.nth(u64::from(self.combinations[index as usize]))
    }

    /// The index of a point; `None` if it breaks a known constraint.
    pub(crate) fn find(&self, key: Key) -> Option<u32> {
        self.index.get(&key).copied()
    }

    /// Distance of two points along one axis.
    pub(crate) fn distance(&self, axis: usize, a: u32, b: u32) -> f64 {
        let [a, b] = [a, b].map(|index| self.symbol(axis, index));
        self.axes[axis].distance(a, b)
    }

    /// On how many axes two points differ.
    pub(crate) fn n_apart(&self, a: u32, b: u32) -> u32 {
        let differs = |axis: &usize| self.symbol(*axis, a) != self.symbol(*axis, b);
        u32::try_from((0..self.axes.len()).filter(differs).count()).expect("a small space has few axes")
    }

    /// Squared distance of two points in one of the descriptors, in units of that of two random points.
    pub(crate) fn view_distance(&self, view: usize, a: u32, b: u32) -> f64 {
        let view = &self.views[view];
        let [a, b] = [a, b].map(|index| view.classes[index as usize]);
        f64::from(view.distance(a, b))
    }

    /// `weight Π_j exp(-decays_j d_j)` between a point and all others.
    pub(crate) fn product_row(&self, point: u32, weight: f64, decays: &[f64]) -> Vec<f32> {
        let [front, back] = [0, 1].map(|half| self.half_row(half, point, decays));
        let front: Vec<f32> = front.iter().map(|entry| single(weight * entry)).collect();
        let back: Vec<f32> = back.iter().map(|entry| single(*entry)).collect();
        let cells = self.halves[0].cells.iter().zip(&self.halves[1].cells);
        cells.map(|(&f, &b)| front[f as usize] * back[b as usize]).collect()
    }

    /// Adds `weight exp(-decay d)` between a point and all others, `d` as of a descriptor, to a row.
    pub(crate) fn add_view_row(&self, view: usize, point: u32, weight: f64, decay: f64, row: &mut [f32]) {
        let (view, weight, decay) = (&self.views[view], single(weight), single(decay));
        let by_class = view.map_distances(point, |distance| weight * (-distance * decay).exp());
        for (entry, &class) in row.iter_mut().zip(&view.classes) {
            *entry += by_class[class as usize];
        }
    }

    /// A draw of the process with covariance `Π_j exp(-decays_j d_j)` at every point; `None` if there
    /// are too many combinations of symbols or symbols of one axis.
    pub(crate) fn draw(&self, decays: &[f64], rng: &mut Rng) -> Option<Vec<f64>> {
        const MAX_CELLS: usize = 400_000;
        const MAX_SYMBOLS: usize = 128;
        let n_back = self.halves[1].n_cells;
        let n_cells = self.halves[0].n_cells.checked_mul(n_back).filter(|&n| n <= MAX_CELLS)?;
        if self.axes.iter().any(|axis| axis.n_symbols > MAX_SYMBOLS) {
            return None;
        }
        let mut field: Vec<f64> = (0..n_cells).map(|_| rng.normal()).collect();
        let mut stride = n_cells;
        for (axis, decay) in self.axes.iter().zip(decays) {
            stride /= axis.n_symbols;
            axis.correlate(*decay, stride, &mut field);
        }
        let cells = self.halves[0].cells.iter().zip(&self.halves[1].cells);
        Some(cells.map(|(&front, &back)| field[front as usize * n_back + back as usize]).collect())
    }

    fn symbol(&self, axis: usize, point: u32) -> usize {
        let half = &self.halves[usize::from(axis >= self.halves[1].axes.start)];
        let below: usize = self.axes[axis + 1..half.axes.end].iter().map(|axis| axis.n_symbols).product();
        half.cells[point as usize] as usize / below % self.axes[axis].n_symbols
    }

    /// `Π_j exp(-decays_j d_j)` over the axes of a half, between a point and every cell.
    fn half_row(&self, half: usize, point: u32, decays: &[f64]) -> Vec<f64> {
        let mut row = vec![1.0];
        for axis in self.halves[half].axes.clone() {
            let own = self.symbol(axis, point);
            let factors: Vec<f64> = (0..self.axes[axis].n_symbols)
                .map(|symbol| (-decays[axis] * self.axes[axis].distance(own, symbol)).exp())
                .collect();
            row = row.iter().flat_map(|entry| factors.iter().map(move |factor| entry * factor)).collect();
        }
        row
    }
}

/// In single precision: a covariance that is off by 10⁻⁷ is lost in any nugget.
#[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
pub(super) fn single(x: f64) -> f32 {
    x as f32
}

/// Splits the axes where the larger of the two numbers of cells is smallest.
fn split(axes: &[Axis]) -> [Half; 2] {
    let count = |axes: &[Axis]| axes.iter().fold(1_usize, |n, axis| n.saturating_mul(axis.n_symbols));
    let larger = |at: &usize| count(&axes[..*at]).max(count(&axes[*at..]));
    let at = (0..=axes.len()).min_by_key(larger).expect("the list is not empty");
    [0..at, at..axes.len()].map(|range| Half {
        n_cells: count(&axes[range.clone()]),
        axes: range,
        cells: Vec::new(),
    })
}

/// The cell of a combination on a run of axes.
fn cell(axes: &[Axis], range: Range<usize>, point: &Point, combination: u64, space: &Space) -> u32 {
    let mut digits = combination;
    for index in (range.end..space.parameters().len()).rev() {
        digits /= space.values_of(index).expect("the space is finite");
    }
    let mut symbols = Vec::with_capacity(axes.len());
    for index in range.clone().rev() {
        let count = space.values_of(index).expect("the space is finite");
        // What does not exist is the symbol after the last value.
        symbols.push(if point.is_active(index) { digits % count } else { count });
        digits /= count;
    }
    let cell = axes
        .iter()
        .zip(symbols.iter().rev())
        .fold(0, |cell, (axis, symbol)| cell * axis.n_symbols as u64 + symbol);
    u32::try_from(cell).expect("half of the axes have few cells")
}

/// One parameter: its values by rank, then a symbol for its absence if it may be missing.
#[derive(Debug)]
pub(crate) struct Axis {
    n_values: usize,
    n_symbols: usize,
    scale: Scale,
}

#[derive(Debug)]
enum Scale {
    /// Options without order.
    Unordered,
    /// Places from 0 to 1.
    Ordered(Vec<f64>),
    /// Orders, each as the set of pairs that are in descending order.
    Orders { descents: Vec<u32>, n_pairs: u32 },
}

impl Axis {
    fn new(space: &Space, index: usize) -> Self {
        let parameter = &space.parameters()[index];
        let count = space.values_of(index).expect("the space is finite");
        let n_values = usize::try_from(count).expect("the space is small");
        let codes = || codes(space, index, count);
        let scale = match &parameter.domain {
            Domain::Choice { .. } | Domain::Bool => Scale::Unordered,
            Domain::Permutation { n } => Scale::Orders {
                descents: codes().iter().map(|ranks| descents(ranks)).collect(),
                n_pairs: n * n.saturating_sub(1) / 2,
            },
            Domain::Float { .. } | Domain::Int { .. } | Domain::Ordinal { .. } => {
                let codes: Vec<f64> = codes().concat();
                let (first, width) = (codes[0], codes[n_values - 1] - codes[0]);
                let place = |code: &f64| if width > 0.0 { (code - first) / width } else { 0.0 };
                Scale::Ordered(codes.iter().map(place).collect())
            }
        };
        Self { n_values, n_symbols: n_values + usize::from(parameter.when.is_some()), scale }
    }

    /// Whether values that are close in rank are alike.
    pub(crate) fn is_ordered(&self) -> bool {
        !matches!(self.scale, Scale::Unordered)
    }

    /// 1 for two options without order, up to 1.5 in an order. What does not exist is 1 from all else.
    fn distance(&self, a: usize, b: usize) -> f64 {
        if a == b {
            return 0.0;
        }
        if a.max(b) >= self.n_values {
            return 1.0;
        }
        match &self.scale {
            Scale::Unordered => 1.0,
            Scale::Ordered(places) => ORDERED_WIDTH * (places[a] - places[b]).abs(),
            Scale::Orders { descents, n_pairs } => {
                ORDERED_WIDTH * f64::from((descents[a] ^ descents[b]).count_ones()) / f64::from(*n_pairs)
            }
        }
    }

    /// Turns independent draws along an axis of a field into draws of covariance `exp(-decay d)`.
    fn correlate(&self, decay: f64, stride: usize, field: &mut [f64]) {
        let n = self.n_symbols;
        let mut factor = Triangle::default();
        for a in 0..n {
            let mut row: Vec<f64> = (0..=a).map(|b| (-decay * self.distance(a, b)).exp()).collect();
            // The smallest jitter that keeps nearly equal symbols apart.
            row[a] += 1e-9;
            assert!(factor.push(&row), "the exponential of a distance of negative type is positive definite");
        }
        for block in field.chunks_exact_mut(n * stride) {
            // From the last on, so that what is read was not yet written.
            for a in (0..n).rev() {
                let weights = factor.row(a);
                for k in 0..stride {
                    let sum =
                        weights.iter().enumerate().map(|(b, weight)| weight * block[b * stride + k]).sum();
                    block[a * stride + k] = sum;
                }
            }
        }
    }
}

/// The coordinates of each value of a parameter.
fn codes(space: &Space, index: usize, count: u64) -> Vec<Vec<f64>> {
    let (at, len) = Layout::new(space).blocks()[index].place();
    let mut values = space.nth(0).values().to_vec();
    let code = |k| {
        values[index] = space.nth_value(index, k);
        let point = space.point(values.clone()).expect("the values are of the space");
        space.encode(&point)[at..at + len].to_vec()
    };
    (0..count).map(code).collect()
}

/// The pairs of elements of which the first has the higher rank, as bits.
fn descents(ranks: &[f64]) -> u32 {
    let pairs = (0..ranks.len()).flat_map(|a| (0..a).map(move |b| (b, a)));
    pairs.fold(0, |bits, (b, a)| bits << 1 | u32::from(ranks[b] > ranks[a]))
}

/// The points as a descriptor sees them: those of equal features are one class.
#[derive(Debug)]
struct View {
    descriptor: Descriptor,
    /// The class of each point.
    classes: Vec<u32>,
    /// The features of each class.
    features: Vec<Vec<(u32, f64)>>,
    /// Distances from one class to all.
    memo: RefCell<BTreeMap<u32, Vec<f32>>>,
}

impl View {
    fn new(descriptor: &Descriptor, points: &[Point]) -> Self {
        let (mut features, mut known) = (Vec::new(), HashMap::new());
        let class = |point: &Point| {
            let of_point = descriptor.of(point);
            let bits: Vec<(u32, u64)> =
                of_point.iter().map(|&(index, value)| (index, value.to_bits())).collect();
            *known.entry(bits).or_insert_with(|| {
                features.push(of_point);
                u32::try_from(features.len() - 1).expect("the space is small")
            })
        };
        let classes = points.iter().map(class).collect();
        Self { descriptor: descriptor.clone(), classes, features, memo: RefCell::default() }
    }

    fn distance(&self, a: u32, b: u32) -> f32 {
        /// Farther apart than any kernel can tell; also what features without a distance are.
        const FAR: f64 = 1e3;
        let distance = self.descriptor.distance(&self.features[a as usize], &self.features[b as usize]);
        if a == b { 0.0 } else { single(distance.min(FAR)) }
    }

    /// A function of the distances from a point to every class.
    fn map_distances(&self, point: u32, f: impl Fn(f32) -> f32) -> Vec<f32> {
        const MEMO: usize = 1 << 23;
        let class = self.classes[point as usize];
        let mut memo = self.memo.borrow_mut();
        if (memo.len() + 1) * self.features.len() > MEMO {
            memo.clear();
        }
        let distances = memo.entry(class).or_insert_with(|| {
            (0..).zip(&self.features).map(|(other, _)| self.distance(class, other)).collect()
        });
        distances.iter().map(|&distance| f(distance)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Goal, Metric, Parameter, Seed};

    fn pool(parameters: Vec<Parameter>, constraints: &[&str]) -> Pool {
        let space = Space::new(parameters, constraints).unwrap();
        let described =
            Descriptor::new("half", &space, |point| vec![(3, 2.0 * f64::from(point.is_active(1)))]);
        let problem = Problem::new(space, vec![Metric::objective("loss", Goal::Min)]).unwrap();
        Pool::new(&problem.described(vec![described]))
    }

    /// Every kind of parameter, one of them missing at times.
    fn mixed() -> Pool {
        let parameters = vec![
            Parameter::choice("kind", ["a", "b", "c"]),
            Parameter::ordinal("size", [1, 2, 4]).when("kind != 'a'"),
            Parameter::log_int("width", 1, 4),
            Parameter::permutation("order", 3),
            Parameter::bool("flag").when("kind == 'a'"),
        ];
        pool(parameters, &["width != 3"])
    }

    #[test]
    fn points_are_those_of_the_space_once_each() {
        let pool = mixed();
        assert_eq!(pool.len(), (2 + 2 * 3) * 3 * 6);
        for index in 0..pool.len() {
            let point = pool.point(index);
            assert!(pool.space.admits(&point));
            assert_eq!(pool.find(pool.space.key(&point)), Some(index));
        }
    }

    #[test]
    fn rows_are_products_over_the_axes_and_make_positive_definite_matrices() {
        let pool = mixed();
        let decays = [0.3, 0.7, 1.1, 0.5, 0.2];
        let n = pool.len() as usize;
        let mut matrix = Vec::new();
        for a in 0..pool.len() {
            let mut row = pool.product_row(a, 0.6, &decays);
            pool.add_view_row(0, a, 0.4, 0.9, &mut row);
            for (b, entry) in (0..).zip(&row) {
                let exponent: f64 =
                    decays.iter().enumerate().map(|(j, decay)| decay * pool.distance(j, a, b)).sum();
                let want = 0.6 * (-exponent).exp() + 0.4 * (-0.9 * pool.view_distance(0, a, b)).exp();
                // A few roundings of single precision.
                assert!((f64::from(*entry) - want).abs() < 1e-6);
            }
            row[a as usize] += 1e-4;
            matrix.extend(row.into_iter().map(f64::from));
        }
        assert!(Triangle::cholesky(&matrix, n).is_some());
    }

    #[test]
    fn distances_follow_the_kind_of_the_parameter() {
        let pool = mixed();
        let distances = |axis: usize| -> Vec<f64> {
            let n = pool.axes[axis].n_symbols;
            (0..n).map(|symbol| (pool.axes[axis].distance(0, symbol) * 1e3).round() / 1e3).collect()
        };
        assert_eq!(distances(0), [0.0, 1.0, 1.0]);
        // Three sizes, and none.
        assert_eq!(distances(1), [0.0, 0.75, 1.5, 1.0]);
        // ln 2 / ln 4 and ln 3 / ln 4 of the width.
        assert_eq!(distances(2), [0.0, 0.75, 1.189, 1.5]);
        let mut orders = distances(3);
        orders.sort_by(f64::total_cmp);
        assert_eq!(orders, [0.0, 0.5, 0.5, 1.0, 1.0, 1.5]);
    }

    #[test]
    fn draws_are_correlated_along_every_axis() {
        let pool = mixed();
        for axis in &pool.axes {
            let n = axis.n_symbols;
            // Row a of the matrix is what becomes of the a-th unit vector.
            let mut matrix: Vec<f64> = (0..n * n).map(|k| f64::from(k % (n + 1) == 0)).collect();
            matrix.chunks_exact_mut(n).for_each(|unit| axis.correlate(0.8, 1, unit));
            for a in 0..n {
                for b in 0..n {
                    let got: f64 = (0..n).map(|k| matrix[k * n + a] * matrix[k * n + b]).sum();
                    let want = (-0.8 * axis.distance(a, b)).exp();
                    assert!((got - want).abs() < 1e-8, "{axis:?}");
                }
            }
        }
        let draw = pool.draw(&[0.0; 5], &mut Seed::new(1).rng(0)).unwrap();
        assert_eq!(draw.len(), pool.len() as usize);
        assert!(draw.iter().all(|value| (value - draw[0]).abs() < 1e-3), "without decay all is one value");
    }
}
