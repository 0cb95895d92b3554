//! Whose runs left less, from the records of a figure.

use std::collections::BTreeMap;

use pleach_search::Seed;

use super::record::{Record, Row};
use super::statistics::{median, quantile};

/// A regret counts as this much at least.
const SOLVED: f64 = 1e-8;

/// The runs of one method on one problem: what was left, by seed.
pub(super) fn regrets(records: &[Record], method: &str, problem: &str) -> BTreeMap<u64, f64> {
    let runs = records.iter().filter(|record| record.method == method && record.problem == problem);
    runs.map(|record| (record.seed, record.value.max(SOLVED))).collect()
}

/// The median and the number of the runs.
pub(super) fn cell(records: &[Record], method: &str, problem: &str) -> (f64, usize) {
    let regrets: Vec<f64> = regrets(records, method, problem).into_values().collect();
    (median(&regrets), regrets.len())
}

/// Logarithms of what `method` left over what `other` left, for the seeds that both have.
pub(super) fn log_ratios(records: &[Record], method: &str, other: &str, problem: &str) -> Vec<f64> {
    let others = regrets(records, other, problem);
    let paired = regrets(records, method, problem).into_iter();
    paired.filter_map(|(seed, mine)| others.get(&seed).map(|theirs| (mine / theirs).ln())).collect()
}

/// The geometric mean of paired ratios, every problem with the same weight, and a 95 % interval:
/// 2,000 bootstrap draws of seeds within problems.
///
/// Three rows: the mean, the lower and the upper end.
pub(super) fn ratio_rows(what: &str, log_ratios: &[Vec<f64>]) -> [Row; 3] {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let of = |problems: &[Vec<f64>]| mean(&problems.iter().map(|p| mean(p)).collect::<Vec<_>>()).exp();
    let log_ratios: Vec<Vec<f64>> = log_ratios.iter().filter(|p| !p.is_empty()).cloned().collect();
    let mut rng = Seed::new(1).child("bootstrap", 0).rng(0);
    let mut draw = |p: &Vec<f64>| p.iter().map(|_| p[rng.index(p.len())]).collect::<Vec<f64>>();
    let draws: Vec<f64> =
        (0..2_000).map(|_| of(&log_ratios.iter().map(&mut draw).collect::<Vec<_>>())).collect();
    [
        Row::new(what, of(&log_ratios)),
        Row::new(format!("{what}, lower end"), quantile(&draws, 0.025)),
        Row::new(format!("{what}, upper end"), quantile(&draws, 0.975)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(method: &str, seed: u64, value: f64) -> Record {
        Record {
            method: method.into(),
            version: String::new(),
            problem: "p".into(),
            seed,
            n: 1,
            value,
            seconds: 0.0,
        }
    }

    #[test]
    fn ratios_are_paired_by_seed() {
        let records = [
            record("a", 1, 2.0),
            record("a", 2, 8.0),
            record("a", 3, 1.0),
            record("b", 2, 2.0),
            record("b", 1, 2.0),
        ];
        let ratios = log_ratios(&records, "a", "b", "p");
        assert_eq!(ratios, [0.0, 4_f64.ln()]);
        let [mean, low, high] = ratio_rows("a over b", &[ratios, vec![]]);
        assert!((mean.value - 2.0).abs() < 1e-12 && (low.value - 1.0).abs() < 1e-12);
        assert!((high.value - 4.0).abs() < 1e-12, "both draws are of seed 2 in a quarter of the cases");
        assert!(ratio_rows("none", &[])[0].value.is_nan());
    }
}
