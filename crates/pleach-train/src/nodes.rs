//! Virtual nodes: the parts of a batch that are computed as wholes, whoever computes them.
//!
//! Or, Zhang, Freedman, *VirtualFlow: decoupling deep learning models from the underlying hardware*,
//! MLSys 2022, §3. Here sums over nodes also follow one tree, so that not only the convergence but
//! every bit is independent of the workers.

use std::ops::Range;

/// The examples of node `node` when `batch` examples are cut into `nodes` contiguous ranges whose
/// lengths differ by one at most, the longer ones first.
pub(crate) fn examples(batch: usize, nodes: usize, node: usize) -> Range<usize> {
    let (short, longer) = (batch / nodes, batch % nodes);
    let start = node * short + node.min(longer);
    start..start + short + usize::from(node < longer)
}

/// The sum of vectors over the nodes along the canonical pairwise tree.
///
/// Leaves are the nodes in order; two neighbouring sums over as many nodes are added once both are
/// there and the first begins at a multiple of twice its length. What is left at the end is added
/// up from the right. The order of additions depends on the number of nodes alone, not on who
/// computes which node, if every worker has a contiguous range.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Sums over ranges of nodes, in order.
    sums: Vec<Sum>,
    /// Memory of sums that were added to others.
    free: Vec<Vec<f32>>,
}

#[derive(Debug)]
struct Sum {
    nodes: Range<usize>,
    vector: Vec<f32>,
}

impl Tree {
    /// A vector of `len` floats to be filled and given to [`push`](Tree::push).
    pub(crate) fn vector(&mut self, len: usize) -> Vec<f32> {
        self.free.pop().unwrap_or_else(|| vec![0.0; len])
    }

    /// Adds the vector of a node, the one after the last.
    pub(crate) fn push(&mut self, node: usize, vector: Vec<f32>) {
        self.push_sum(Sum { nodes: node..node + 1, vector });
    }

    fn push_sum(&mut self, sum: Sum) {
        self.sums.push(sum);
        while let [.., left, right] = &self.sums[..] {
            let len = left.nodes.len();
            let siblings = len == right.nodes.len() && left.nodes.start.is_multiple_of(2 * len);
            if !siblings {
                break;
            }
            self.add_last();
        }
    }

    /// Adds the last sum to the one before.
    fn add_last(&mut self) {
        let right = self.sums.pop().expect("there are two");
        let left = self.sums.last_mut().expect("there are two");
        debug_assert_eq!(left.nodes.end, right.nodes.start);
        for (a, b) in left.vector.iter_mut().zip(&right.vector) {
            *a += b;
        }
        left.nodes.end = right.nodes.end;
        self.free.push(right.vector);
    }

    /// Takes over the sums of the worker that has the nodes after these.
    pub(crate) fn append(&mut self, other: &mut Tree) {
        for sum in other.sums.drain(..) {
            self.push_sum(sum);
        }
    }

    /// Hands an unused vector to the one of `others` that has the fewest, and so on until it has none,
    /// so that nobody takes new memory in every step.
    pub(crate) fn hand_out<T>(&mut self, others: &mut [T], tree: impl Fn(&mut T) -> &mut Tree) {
        while let Some(vector) = self.free.pop() {
            let poorest = others.iter_mut().map(&tree).min_by_key(|other| other.free.len());
            poorest.expect("there is a worker").free.push(vector);
        }
    }

    /// The sum over all nodes, for `take` to read; the tree is empty then.
    pub(crate) fn finish<T>(&mut self, take: impl FnOnce(&[f32]) -> T) -> T {
        while self.sums.len() > 1 {
            self.add_last();
        }
        let sum = self.sums.pop().expect("there is a node at least");
        let result = take(&sum.vector);
        self.free.push(sum.vector);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_in_one_node() {
        for batch in [1, 5, 12, 97] {
            for nodes in 1..=batch {
                let mut next = 0;
                for node in 0..nodes {
                    let range = examples(batch, nodes, node);
                    assert_eq!(range.start, next);
                    assert!(!range.is_empty());
                    next = range.end;
                }
                assert_eq!(next, batch);
            }
        }
    }

    fn leaf(node: usize) -> Vec<f32> {
        vec![(node as f32 * 1.37).sin() * 1e3, 1.0 / (node as f32 + 1.0)]
    }

    fn sum(nodes: usize, cuts: &[usize]) -> Vec<u32> {
        let mut total = Tree::default();
        let mut start = 0;
        for &end in cuts.iter().chain([&nodes]) {
            let mut tree = Tree::default();
            for node in start..end {
                tree.push(node, leaf(node));
            }
            total.append(&mut tree);
            start = end;
        }
        total.finish(|sum| sum.iter().map(|x| x.to_bits()).collect())
    }

    #[test]
    fn the_sum_does_not_depend_on_who_has_which_nodes() {
        for nodes in 1..=19 {
            let want = sum(nodes, &[]);
            for a in 0..=nodes {
                for b in a..=nodes {
                    assert_eq!(sum(nodes, &[a, b]), want, "{nodes} nodes cut at {a} and {b}");
                }
            }
        }
    }
}
