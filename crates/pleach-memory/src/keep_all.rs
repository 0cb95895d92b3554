//! The plan of those who have memory enough: nothing is computed twice and nothing is moved.

use std::ops::Range;

use pleach_graph::{Program, ValueId, ValueKind};
use pleach_tensor::Operands;

use crate::{Error, Plan, Step};

/// Floats at whose multiples values begin: a line of the cache.
const ALIGNMENT: usize = 16;

/// When something is in memory: from the instruction that writes it to the last that reads it, both
/// included.
#[derive(Clone, Debug)]
struct Block {
    len: usize,
    first: usize,
    last: usize,
    /// Values in it; a workspace holds none.
    values: Vec<ValueId>,
}

/// Keeps every value from where it is written to where it is last read, and lets values share
/// memory that are never needed together. Kernels that can write over what they read for the last
/// time do.
///
/// Blocks get their places in the order of their sizes, the largest first, each at the lowest free
/// place of its time.
///
/// # Errors
/// [`Error::TooLarge`].
pub fn keep_all(program: &Program) -> Result<Plan, Error> {
    let (mut blocks, block_of) = blocks(program);
    let mut workspaces = Vec::with_capacity(program.instructions.len());
    for (index, instruction) in program.instructions.iter().enumerate() {
        // The fastest.
        let len = instruction.kernel.workspaces().last().copied().unwrap_or(0);
        workspaces.push((blocks.len(), len));
        blocks.push(Block { len, first: index, last: index, values: Vec::new() });
    }
    let (starts, len) = pack(&blocks)?;
    let range = |value: ValueId| {
        let start = starts[block_of[value]];
        start..start + program.values[value].len
    };
    let mut steps = Vec::with_capacity(program.instructions.len());
    for (index, instruction) in program.instructions.iter().enumerate() {
        let reads: Vec<Range<usize>> = instruction.reads.iter().map(|&value| range(value)).collect();
        let writes = instruction.writes.iter().map(|&value| range(value)).collect();
        let (block, len) = workspaces[index];
        let workspace = starts[block]..starts[block] + len;
        let operands = Operands::new(&*instruction.kernel, reads, writes, workspace)?;
        steps.push(Step::Run { instruction: index, operands });
    }
    let kept = kept(program);
    let places = (0..program.values.len()).map(|value| kept[value].then(|| range(value))).collect();
    Ok(Plan { len, steps, passes: program.passes, update: program.update, places })
}

/// Which values must be in memory when the passes are over.
fn kept(program: &Program) -> Vec<bool> {
    let mut kept: Vec<bool> = program
        .values
        .iter()
        .map(|value| !matches!(value.kind, ValueKind::Activation | ValueKind::Gradient))
        .collect();
    for port in program.outputs.iter().chain(&program.loss) {
        kept[port.value] = true;
    }
    for running in &program.running {
        kept[running.latest] = true;
    }
    // A derivative may be another value under a second name.
    for parameter in &program.parameters {
        if let Some(gradient) = parameter.gradient {
            kept[gradient] = true;
        }
    }
    kept
}

/// The blocks of all values, and the block of each value.
fn blocks(program: &Program) -> (Vec<Block>, Vec<usize>) {
    let end = program.instructions.len();
    let kept = kept(program);
    let mut first = vec![end; program.values.len()];
    let mut last = vec![0; program.values.len()];
    for (index, instruction) in program.instructions.iter().enumerate() {
        for &value in instruction.reads.iter().chain(&instruction.writes) {
            first[value] = first[value].min(index);
            last[value] = last[value].max(index);
        }
    }
    for (value, info) in program.values.iter().enumerate() {
        if kept[value] {
            last[value] = end;
        }
        if matches!(info.kind, ValueKind::Input | ValueKind::Parameter | ValueKind::Seed) {
            (first[value], last[value]) = (0, end);
        }
    }
    let mut blocks: Vec<Block> = Vec::new();
    let mut block_of = vec![usize::MAX; program.values.len()];
    for (value, info) in program.values.iter().enumerate() {
        if info.kind != ValueKind::Activation && info.kind != ValueKind::Gradient {
            block_of[value] = blocks.len();
            blocks.push(Block {
                len: info.len,
                first: first[value].min(last[value]),
                last: last[value],
                values: vec![value],
            });
        }
    }
    for (index, instruction) in program.instructions.iter().enumerate() {
        let mut taken = Vec::new();
        for (place, &write) in instruction.writes.iter().enumerate() {
            if block_of[write] != usize::MAX {
                continue;
            }
            // The memory of something that is read here for the last time.
            let over = instruction.kernel.in_place().iter().find_map(|&(read, to)| {
                let &value = instruction.reads.get(read)?;
                let free = to == place
                    && last[value] == index
                    && program.values[value].len == program.values[write].len
                    && !taken.contains(&block_of[value])
                    && instruction.reads.iter().filter(|&&other| other == value).count() == 1;
                free.then_some(block_of[value])
            });
            let block = over.unwrap_or_else(|| {
                let len = program.values[write].len;
                blocks.push(Block { len, first: index, last: index, values: Vec::new() });
                blocks.len() - 1
            });
            taken.push(block);
            block_of[write] = block;
            blocks[block].values.push(write);
            blocks[block].last = blocks[block].last.max(last[write]);
        }
    }
    // Values that nothing touches have no block of their own.
    for (value, block) in block_of.iter_mut().enumerate() {
        if *block == usize::MAX {
            *block = blocks.len();
            blocks.push(Block { len: program.values[value].len, first: 0, last: end, values: vec![value] });
        }
    }
    (blocks, block_of)
}

/// Where every block begins, and where the last one ends.
fn pack(blocks: &[Block]) -> Result<(Vec<usize>, usize), Error> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&block| (std::cmp::Reverse(blocks[block].len), blocks[block].first, block));
    let mut starts = vec![0; blocks.len()];
    // Blocks that have a place, by their starts.
    let mut placed: Vec<usize> = Vec::new();
    let mut len = 0;
    for block in order {
        let Block { len: size, first, last, .. } = blocks[block];
        let mut start = 0;
        for &other in &placed {
            let theirs = &blocks[other];
            if theirs.first > last || first > theirs.last {
                continue;
            }
            if starts[other] >= start + size {
                break;
            }
            start = start.max((starts[other] + theirs.len).next_multiple_of(ALIGNMENT));
        }
        starts[block] = start;
        let end = start.checked_add(size).ok_or(Error::TooLarge)?;
        len = len.max(end);
        let at = placed.partition_point(|&other| starts[other] <= start);
        placed.insert(at, block);
    }
    if len.checked_mul(size_of::<f32>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(Error::TooLarge);
    }
    Ok((starts, len))
}

#[cfg(test)]
mod tests {
    use pleach_graph::{Program, model};
    use pleach_tensor::{Numerics, update};
    use serde_json::json;

    use super::*;

    fn program(name: &str, parameters: serde_json::Value) -> Program {
        let graph = model(name, parameters).unwrap();
        let mut program = Program::training(&graph, 4, Numerics::Winograd4, &|_| false).unwrap();
        program.add_update(&*update("sgd", json!({"momentum": 0.9})).unwrap(), true, None);
        program
    }

    #[test]
    fn what_is_needed_at_one_time_never_overlaps() {
        for program in [
            program("resnet-cifar", json!({"depth": 14})),
            program("densenet", json!({"input": [32, 32, 3], "growth": 4, "blocks": [2, 2]})),
            program("mobilenet-v3", json!({"input": [32, 32, 3], "classes": 10})),
        ] {
            let (blocks, _) = blocks(&program);
            let (starts, len) = pack(&blocks).unwrap();
            for (a, one) in blocks.iter().enumerate() {
                assert!(starts[a] + one.len <= len);
                for (b, other) in blocks[..a].iter().enumerate() {
                    let together = one.first <= other.last && other.first <= one.last;
                    let overlap = starts[a] < starts[b] + other.len && starts[b] < starts[a] + one.len;
                    assert!(!(together && overlap), "{one:?} and {other:?}");
                }
            }
        }
    }

    #[test]
    fn memory_is_shared_over_time() {
        let program = program("resnet-cifar", json!({"depth": 20}));
        let plan = keep_all(&program).unwrap();
        let all: usize = program.values.iter().map(|value| value.len).sum();
        assert!(plan.len < all * 3 / 4, "{} of {all}", plan.len);
        assert_eq!(plan.steps.len(), program.instructions.len());
    }

    #[test]
    fn a_thousand_layers_are_planned() {
        let program = program("resnet-cifar", json!({"depth": 1202, "width": 2, "input": [8, 8, 3]}));
        assert!(keep_all(&program).unwrap().len > 0);
    }
}
