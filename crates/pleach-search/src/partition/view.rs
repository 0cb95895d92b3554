//! A partition as people read it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use super::boundary::{Boundary, Expansion};
use super::coding::Coding;
use super::kernel::Kernel;
use super::tree::Tree;
use crate::layout::{Block, Layout};
use crate::{Domain, History, Key, Literal};

/// A learned partition of the space at one moment, to print and to explain.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The nodes; the root is the first, and children come after their parents.
    pub nodes: Vec<Part>,
    /// How many trials the method has proposed.
    pub asks: u64,
    /// How many of them were asked for a region below the root.
    pub asks_below_root: u64,
    /// How many of them were moved towards the mean of CMA-ES, because none of its draws was inside;
    /// `None` for a solver that has no such mean.
    pub bisections: Option<u64>,
    /// Number of tells when the tree was last built; later trials were added to it.
    pub built_at: usize,
    coding: Coding,
}

/// A node of a [`Partition`].
#[derive(Clone, Debug)]
pub struct Part {
    /// The index of its parent; `None` for the root.
    pub parent: Option<usize>,
    /// The indices of its children: where `split` holds, and where it does not. `None` for a leaf.
    pub children: Option<[usize; 2]>,
    /// Number of boundaries above it.
    pub depth: usize,
    /// What holds in its first child, in words.
    pub split: Option<String>,
    /// How good its points are: their mean rank, or what the method takes for it; in `[0, 1]`,
    /// larger is better.
    pub value: f64,
    /// `value` with the bonus for few visits; among siblings the larger one is visited.
    pub bound: f64,
    /// Number of points told.
    pub points: usize,
    /// Number of pending trials.
    pub pending: usize,
    /// The first trial of its best point.
    pub best: Option<u64>,
    /// Whether the next trial is asked for a region inside.
    pub selected: bool,
    pub(crate) rule: Option<Rule>,
}

/// What decides on which side of a split a trial is.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Boundary(Arc<Boundary>),
    /// A decision for every point of a small space.
    Table(HashMap<Key, f64>),
}

/// How often a method has asked, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asks {
    /// Trials that it proposed.
    pub(crate) all: u64,
    pub(crate) below_root: u64,
    /// See [`Partition::bisections`].
    pub(crate) bisections: Option<u64>,
}

/// A step on the way from the root to the leaf of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The index of the node.
    pub node: usize,
    /// How far its point is on the positive side of the split of the node; `None` in a leaf.
    ///
    /// 1 is the margin of a kernel boundary, and the mean distance of its points for a linear one.
    pub decision: Option<f64>,
}

impl Partition {
    pub(crate) fn new(tree: &Tree, asks: Asks) -> Self {
        let selection = tree.selection();
        let coding = tree.coding();
        let mut nodes: Vec<Part> = tree
            .nodes()
            .iter()
            .enumerate()
            .map(|(at, node)| Part {
                parent: node.parent,
                children: node.split.as_ref().map(|(_, children)| *children),
                depth: node.depth,
                split: node
                    .split
                    .as_ref()
                    .and_then(|(boundary, _)| Some(in_words(boundary, coding.layout()?))),
                value: tree.value(at),
                bound: tree.bound(at),
                points: node.len(),
                pending: node.pending,
                best: None,
                selected: selection.contains(&at),
                rule: node.split.as_ref().map(|(boundary, _)| Rule::Boundary(boundary.clone())),
            })
            .collect();
        let mut bests: Vec<_> = (0..nodes.len()).map(|at| tree.members(at).min()).collect();
        for at in (1..nodes.len()).rev() {
            if let Some(parent) = nodes[at].parent {
                bests[parent] = bests[parent].into_iter().chain(bests[at]).min();
            }
        }
        for (node, best) in nodes.iter_mut().zip(bests) {
            node.best = best.map(|(_, number)| number);
        }
        Self::of(nodes, asks, tree.built_at(), coding.clone())
    }

    /// A partition of a small space, divided anew for every trial.
    pub(crate) fn of_pool(nodes: Vec<Part>, asks: Asks, history: &History) -> Self {
        Self::of(nodes, asks, history.told().len(), Coding::points(history.space()))
    }

    fn of(nodes: Vec<Part>, asks: Asks, built_at: usize, coding: Coding) -> Self {
        let Asks { all: asks, below_root: asks_below_root, bisections } = asks;
        Self { nodes, asks, asks_below_root, bisections, built_at, coding }
    }

    /// The way of a trial from the root to its leaf; only the root if its place is not known (yet).
    ///
    /// # Panics
    /// If `history` has no such trial.
    pub fn path(&self, history: &History, number: u64) -> Vec<Step> {
        let code = self.coding.code(history, number);
        let mut path = Vec::new();
        let mut node = 0;
        loop {
            let part = &self.nodes[node];
            let decision = match (&part.rule, self.coding.layout(), &code) {
                (Some(Rule::Boundary(boundary)), Some(layout), Some(code)) => {
                    Some(boundary.decision(layout, code))
                }
                (Some(Rule::Table(decisions)), ..) => decisions.get(&history.trial(number).key).copied(),
                _ => None,
            };
            path.push(Step { node, decision });
            let (Some(decision), Some(children)) = (decision, part.children) else { return path };
            node = children[usize::from(decision <= 0.0)];
        }
    }
}

/// What holds on the positive side of a boundary.
fn in_words(boundary: &Boundary, layout: &Layout) -> String {
    match boundary {
        Boundary::Linear { weights, offset } => {
            const SHOWN: usize = 3;
            let names = names(layout);
            // Features of numbers are centred, and people's are not.
            let centres = names.iter().map(|(_, centre)| centre);
            let threshold =
                centres.zip(weights).map(|(centre, weight)| centre * weight).sum::<f64>() - offset;
            let mut terms: Vec<(&str, f64)> =
                names.iter().map(|(name, _)| name.as_str()).zip(weights.iter().copied()).collect();
            terms.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
            let mut words = String::new();
            for (name, weight) in terms.iter().take(SHOWN) {
                let sign = if *weight < 0.0 {
                    "- "
                } else if words.is_empty() {
                    ""
                } else {
                    "+ "
                };
                let _ = write!(words, "{sign}{:.2} {name} ", weight.abs());
            }
            if terms.len() > SHOWN {
                words += "… ";
            }
            format!("{words}> {threshold:.2}")
        }
        Boundary::Expansion(Expansion { kernel, vectors, .. }) => {
            let kernel = match kernel {
                Kernel::Mixed { .. } => "Gaussian",
                Kernel::Cubic { .. } => "cubic",
            };
            format!("inside a {kernel} boundary of {} support vectors", vectors.len())
        }
        Boundary::Equal { at, value } => {
            let index = layout.blocks().iter().position(|block| block.place().0 == *at);
            let Some(parameter) = index.map(|index| &layout.space().parameters()[index]) else {
                return String::new();
            };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an index of an option"
            )]
            let option = |count: usize| (value * count as f64) as usize;
            match &parameter.domain {
                Domain::Choice { values } => match &values[option(values.len())] {
                    Literal::Text(text) => format!("{} == '{text}'", parameter.name),
                    other => format!("{} == {other}", parameter.name),
                },
                _ if option(2) == 1 => parameter.name.clone(),
                _ => format!("not {}", parameter.name),
            }
        }
    }
}

/// The features of a linear boundary, by name, with what is taken off them.
fn names(layout: &Layout) -> Vec<(String, f64)> {
    let mut names = Vec::new();
    for (parameter, block) in layout.space().parameters().iter().zip(layout.blocks()) {
        let name = &parameter.name;
        match (*block, &parameter.domain) {
            (Block::Number { .. }, _) => names.push((name.clone(), 0.5)),
            (Block::Permutation { len, .. }, _) => {
                names.extend((0..len).map(|element| (format!("rank({name}, {element})"), 0.5)));
            }
            (Block::Option { .. }, Domain::Choice { values }) => {
                names.extend(values.iter().map(|value| (format!("[{name} == {value}]"), 0.0)));
            }
            (Block::Option { .. }, _) => {
                names.extend([(format!("[not {name}]"), 0.0), (format!("[{name}]"), 0.0)]);
            }
        }
    }
    names
}
