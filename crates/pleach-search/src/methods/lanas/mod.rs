//! `LaNAS`: a tree of linear boundaries that says where to look next.

mod cells;
#[cfg(test)]
mod tests;

use super::by_size::BySize;
use super::la_mcts::LaMcts;
use super::options::Given;
use super::{Entry, Optimizer, Options};
use crate::partition::{Family, Label, Plan, Value};
use crate::{Error, History};
use cells::Cells;

pub(super) const ENTRY: Entry = Entry {
    name: "lanas",
    summary: "learns a tree of linear boundaries between architectures; for small finite spaces above all",
    options: &[
        (
            "leaf",
            "ei, or mutation above 100,000 points",
            "how a point of the chosen region is chosen: ei (expected improvement), mutation or uniform",
        ),
        ("height", "5", "nodes on the longest way from the root to a leaf"),
        ("cp", "0.01", "how much regions with few visits are favoured; values are ranks from 0 to 1"),
    ],
    learns: true,
    deliberates: true,
    build,
};

/// Latent action neural architecture search.
///
/// A node of the tree predicts the ranks of its points by ridge regression, and those predicted to
/// be above the mean go to its first child. From the root the child with the larger upper
/// confidence bound is taken; the next trial lies in the leaf where that ends.
///
/// In a space of at most 10⁵ points regression is on their similarities to known points, descriptors
/// included (see [`Cells`]); elsewhere it is on coordinates, and the tree is that of `la-mcts`.
///
/// # Source
/// Wang, Xie, Li, Fonseca, Tian, *Sample-Efficient Neural Architecture Search by Learning Action
/// Space for Monte Carlo Tree Search*, arXiv:1906.06832, §3 and Alg. 1.
/// Deviations: values are ranks, so that one `Cp` fits all objectives; inside the leaf the point of
/// largest expected improvement or a mutation comes before a random one, which needs about three
/// times as many trials on NAS-Bench-201.
fn build(history: &History, options: &Options) -> Result<Box<dyn Optimizer>, Error> {
    let design = Design::new(options)?;
    let small = move |history: &History| Ok(Box::new(Cells::new(history, &design)) as Box<dyn Optimizer>);
    let large = move |history: &History| design.la_mcts(history);
    Ok(Box::new(BySize::new(history, Box::new(small), Box::new(large))?))
}

/// How a point of a region is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaf {
    Improvement,
    Mutation,
    Uniform,
}

/// The options.
#[derive(Clone, Copy, Debug)]
struct Design {
    /// `None` for the default of the space.
    leaf: Option<Leaf>,
    height: usize,
    cp: f64,
}

impl Design {
    fn new(options: &Options) -> Result<Self, Error> {
        let given = Given { method: ENTRY.name, options };
        let leaves = [Leaf::Improvement, Leaf::Mutation, Leaf::Uniform];
        let leaf = given.word("leaf", &["ei", "mutation", "uniform"])?;
        Ok(Self {
            leaf: options.contains_key("leaf").then_some(leaves[leaf]),
            height: given.count("height", 1..=100)?.unwrap_or(5),
            cp: given.number("cp", 0.0..=1000.0)?.unwrap_or(0.01),
        })
    }

    /// The tree over coordinates.
    fn la_mcts(&self, history: &History) -> Result<Box<dyn Optimizer>, Error> {
        /// Trials of the first design, and points of a region that is split.
        const INIT: u64 = 10;
        const LEAF: usize = 20;
        let solver = match self.leaf.unwrap_or(Leaf::Mutation) {
            Leaf::Improvement => "gp",
            Leaf::Mutation => "aging-evolution",
            Leaf::Uniform => "random",
        };
        let plan = Plan {
            label: Label::Ridge,
            family: Family::Ridge,
            value: Value::Mean,
            cp: self.cp,
            leaf: LEAF,
            depth: self.height - 1,
            ..Plan::default()
        };
        Ok(Box::new(LaMcts::new(history, plan, INIT, solver, &Options::new())?))
    }
}
