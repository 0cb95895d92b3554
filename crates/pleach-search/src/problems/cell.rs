//! What a cell of NAS-Bench-201 looks like as a graph of operations.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

/// Start and end of every edge; node 0 is the input, node 3 the output.
const ENDS: [(usize, usize); 6] = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
const NODES: usize = 4;
const NONE: usize = 0;
const SKIP: usize = 1;

/// Labels of the input and the output of the cell, and the only one of a cell whose output is cut off;
/// operations are labelled by their digit.
const INPUT: u32 = 100;
const OUTPUT: u32 = 101;
const CUT_OFF: u32 = 102;

/// Rounds of relabelling.
const ROUNDS: usize = 2;

/// How often each Weisfeiler–Lehman label occurs in a cell: pairs of label and count, labels ascending.
///
/// The vertices are the operations on a path from the input to the output, the input and the output;
/// a skip connection joins what it connects. A vertex is labelled by its operation, and in each of two
/// rounds by its label and those of the vertices that it reads from.
/// An operation on two edges is two vertices, although both may compute the same.
///
/// # Source
/// Shervashidze et al., *Weisfeiler-Lehman Graph Kernels*, JMLR 12, 2011, Alg. 1, on directed
/// edges.
/// Deviation: labels are hashes, so that they do not depend on which cells were labelled before.
pub(super) fn label_counts(operations: [usize; 6]) -> Vec<(u32, f64)> {
    let Some(mut vertices) = vertices(operations) else { return vec![(CUT_OFF, 1.0)] };
    let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
    for round in 0..=ROUNDS {
        for vertex in &vertices {
            *counts.entry(vertex.label).or_default() += 1.0;
        }
        if round < ROUNDS {
            let labels: Vec<u32> = vertices.iter().map(|vertex| relabelled(vertex, &vertices)).collect();
            vertices.iter_mut().zip(labels).for_each(|(vertex, label)| vertex.label = label);
        }
    }
    counts.into_iter().collect()
}

struct Vertex {
    label: u32,
    /// The vertices it reads from.
    sources: Vec<usize>,
}

/// The input, the operations that matter, and the output; `None` if no path leads to the output.
fn vertices(operations: [usize; 6]) -> Option<Vec<Vertex>> {
    let exists = |edge: usize| operations[edge] != NONE;
    let (mut fed, mut read) = ([false; NODES], [false; NODES]);
    (fed[0], read[NODES - 1]) = (true, true);
    // Edges are sorted by their end, and in reverse by a start that comes after all it leads to.
    for (edge, (start, end)) in ENDS.into_iter().enumerate() {
        fed[end] |= exists(edge) && fed[start];
    }
    for node in (0..NODES).rev() {
        read[node] |= (0..ENDS.len()).any(|edge| exists(edge) && ENDS[edge].0 == node && read[ENDS[edge].1]);
    }
    if !fed[NODES - 1] {
        return None;
    }
    let mut vertices = vec![Vertex { label: INPUT, sources: Vec::new() }];
    // What arrives at each node: the input, or results of operations.
    let mut arriving: [Vec<usize>; NODES] = [vec![0], Vec::new(), Vec::new(), Vec::new()];
    for (edge, (start, end)) in ENDS.into_iter().enumerate() {
        if !(exists(edge) && fed[start] && read[end]) {
            continue;
        }
        let sources = arriving[start].clone();
        if operations[edge] == SKIP {
            arriving[end].extend(sources);
        } else {
            arriving[end].push(vertices.len());
            let label = u32::try_from(operations[edge]).expect("an operation is a digit");
            vertices.push(Vertex { label, sources });
        }
    }
    vertices.push(Vertex { label: OUTPUT, sources: std::mem::take(&mut arriving[NODES - 1]) });
    Some(vertices)
}

/// A hash of the labels of a vertex and of its sources.
fn relabelled(vertex: &Vertex, vertices: &[Vertex]) -> u32 {
    let mut sources: Vec<u32> = vertex.sources.iter().map(|&source| vertices[source].label).collect();
    sources.sort_unstable();
    let labels = std::iter::once(vertex.label).chain(sources);
    let bytes: Vec<u8> = labels.flat_map(u32::to_le_bytes).collect();
    // The upper half; a few thousand labels share one of 2³² with probability 10⁻³.
    u32::try_from(xxh3_64(&bytes) >> 32).expect("32 bits are left")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn dead_edges_and_skips_leave_no_trace() {
        let check = |a: [usize; 6], b: [usize; 6], same: bool| {
            assert_eq!(label_counts(a) == label_counts(b), same, "{a:?} {b:?}");
        };
        // A convolution into a node that nothing reads.
        check([3, 0, 0, 2, 0, 0], [0, 0, 0, 2, 0, 0], true);
        // A convolution out of a node that nothing feeds.
        check([0, 0, 3, 2, 3, 3], [0, 0, 0, 2, 0, 0], true);
        // One convolution, directly or over a skip on either side.
        check([0, 0, 0, 3, 0, 0], [3, 0, 0, 0, 1, 0], true);
        check([0, 0, 0, 3, 0, 0], [0, 1, 0, 0, 0, 3], true);
        // Two in a row, and two beside each other.
        check([3, 0, 0, 0, 3, 0], [0, 3, 0, 0, 0, 3], true);
        check([3, 0, 0, 0, 3, 0], [3, 0, 0, 3, 1, 0], false);
        check([3, 0, 0, 0, 2, 0], [2, 0, 0, 0, 3, 0], false);
        check([0; 6], [3, 3, 3, 0, 0, 0], true);
        assert_eq!(label_counts([0; 6]), [(CUT_OFF, 1.0)]);
    }

    /// Hashes of 32 bits tell as many cells apart as labels that are spelled out.
    #[test]
    fn labels_do_not_collide() {
        // Computed apart from this: 2,660 labels as nested strings, 5,425 multisets of them.
        let (mut labels, mut cells) = (HashSet::new(), HashSet::new());
        for row in 0..5_usize.pow(6) {
            let counts = label_counts(std::array::from_fn(|edge| row / [3125, 625, 125, 25, 5, 1][edge] % 5));
            assert!(counts.is_sorted_by(|a, b| a.0 < b.0));
            labels.extend(counts.iter().map(|entry| entry.0));
            cells.insert(counts.iter().map(|(label, count)| (*label, count.to_bits())).collect::<Vec<_>>());
        }
        assert_eq!((labels.len(), cells.len()), (2_660, 5_425));
    }
}
