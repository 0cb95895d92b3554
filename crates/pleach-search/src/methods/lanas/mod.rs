//! `LaNAS`: a tree of linear boundaries that says where to look next.

mod cells;

use super::finite::suits;
use super::la_mcts::LaMcts;
use super::options::Given;
use super::{Entry, Optimizer, Options, Proposal, method};
use crate::partition::{Family, Label, Partition, Plan, Value};
use crate::{Error, History, Region};
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
    build: |history, options| {
        let design = Design::new(options)?;
        let inner = design.build(history)?;
        Ok(Box::new(LaNas { design, inner }))
    },
};

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

    /// The search of a finite space is over its points, that of any other over their coordinates.
    fn build(&self, history: &History) -> Result<Box<dyn Optimizer>, Error> {
        /// Trials of the first design, and points of a region that is split.
        const INIT: u64 = 10;
        const LEAF: usize = 20;
        if suits(history.space()) {
            return Ok(Box::new(Cells::new(history, self)));
        }
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
        let solver = method(solver)?.build(history, &Options::new())?;
        Ok(Box::new(LaMcts::new(history, plan, INIT, solver)))
    }
}

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
struct LaNas {
    design: Design,
    inner: Box<dyn Optimizer>,
}

impl Optimizer for LaNas {
    fn ask(&self, history: &History, region: &Region, n: usize) -> Result<Vec<Proposal>, Error> {
        self.inner.ask(history, region, n)
    }

    fn asked(&mut self, history: &History, region: &Region, number: u64) {
        self.inner.asked(history, region, number);
    }

    fn told(&mut self, history: &History, number: u64) {
        self.inner.told(history, number);
    }

    /// Begins anew with what is known: a space that grows may be no longer small.
    fn space_changed(&mut self, history: &History) -> Result<(), Error> {
        if suits(history.space()) {
            self.inner = self.design.build(history)?;
            return Ok(());
        }
        if self.inner.partition().is_some() {
            return self.inner.space_changed(history);
        }
        self.inner = self.design.build(history)?;
        (0..history.next_number()).for_each(|number| self.inner.asked(history, &Region::whole(), number));
        history.told().iter().for_each(|&number| self.inner.told(history, number));
        Ok(())
    }

    fn partition(&self) -> Option<Partition> {
        self.inner.partition()
    }

    fn snapshot(&self) -> Vec<u8> {
        self.inner.snapshot()
    }

    fn restore(&mut self, history: &History, snapshot: &[u8]) -> Result<(), Error> {
        self.inner.restore(history, snapshot)
    }
}
