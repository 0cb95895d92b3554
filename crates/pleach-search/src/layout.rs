//! How points are compared: the code of a point, and what its coordinates mean.

use crate::{Domain, Point, Space};

/// What one parameter contributes to a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// A number or an ordered option: one coordinate in `[0, 1]`.
    Number {
        /// Its place in the code.
        at: usize,
    },
    /// An option without order: one coordinate, of which only equality means something.
    Option {
        /// Its place in the code.
        at: usize,
        /// Number of options.
        count: u64,
    },
    /// An order of `len` elements: the coordinate of an element is `(rank + ½) / len`.
    Permutation {
        /// Where it begins in the code.
        at: usize,
        /// Number of elements.
        len: usize,
    },
}

/// The code of a point is its unit-cube coordinates, with NaN for the parameters that do not exist
/// at the point; a layout says what the coordinates mean.
///
/// Two codes are compared over the parameters that exist in both.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    space: Space,
    blocks: Vec<Block>,
    is_numbers: bool,
}

impl Layout {
    pub(crate) fn new(space: &Space) -> Self {
        let mut at = 0;
        let block = |parameter: &crate::Parameter| {
            let start = at;
            at += if let Domain::Permutation { n } = parameter.domain { n as usize } else { 1 };
            match &parameter.domain {
                Domain::Permutation { n } => Block::Permutation { at: start, len: *n as usize },
                Domain::Choice { values } => Block::Option { at: start, count: values.len() as u64 },
                Domain::Bool => Block::Option { at: start, count: 2 },
                Domain::Float { .. } | Domain::Int { .. } | Domain::Ordinal { .. } => {
                    Block::Number { at: start }
                }
            }
        };
        let blocks: Vec<Block> = space.parameters().iter().map(block).collect();
        let is_numbers = blocks.iter().all(|block| matches!(block, Block::Number { .. }));
        Self { space: space.clone(), blocks, is_numbers }
    }

    /// The space whose points are coded.
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// One block a parameter, in the order of the space.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Whether there are no options and no orders; parameters may be missing.
    pub(crate) fn is_numbers(&self) -> bool {
        self.is_numbers
    }

    /// Whether every code is a list of numbers: no options, no orders, no parameter that may be missing.
    pub(crate) fn is_numeric(&self) -> bool {
        self.is_numbers && self.space.parameters().iter().all(|parameter| parameter.when.is_none())
    }

    /// Number of coordinates of a code.
    pub(crate) fn len(&self) -> usize {
        self.space.unit_len()
    }

    /// The code of a point.
    pub(crate) fn code(&self, point: &Point) -> Vec<f64> {
        let mut code = self.space.encode(point);
        for (index, block) in self.blocks.iter().enumerate() {
            if !point.is_active(index) {
                let (at, len) = block.place();
                code[at..at + len].fill(f64::NAN);
            }
        }
        code
    }
}

impl Block {
    /// Where its coordinates begin, and how many there are.
    pub(crate) fn place(self) -> (usize, usize) {
        match self {
            Block::Number { at } | Block::Option { at, .. } => (at, 1),
            Block::Permutation { at, len } => (at, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parameter, Value};

    #[test]
    fn parameters_that_do_not_exist_are_not_coded() {
        let parameters = vec![
            Parameter::bool("f"),
            Parameter::permutation("p", 3).when("f"),
            Parameter::ordinal("o", [1, 2]),
        ];
        let layout = Layout::new(&Space::new(parameters, &[]).unwrap());
        let place = |block: &Block| block.place();
        assert_eq!(layout.blocks().iter().map(place).collect::<Vec<_>>(), [(0, 1), (1, 3), (4, 1)]);
        let order = Value::Permutation([2, 0, 1].into());
        let code = |flag: bool| {
            let values = vec![Value::Bool(flag), order.clone(), Value::Choice(1)];
            layout.code(&layout.space().point(values).unwrap())
        };
        assert_eq!(code(true)[1..4], [0.5, 2.5 / 3.0, 0.5 / 3.0]);
        assert!(code(false)[1..4].iter().all(|u| u.is_nan()));
        assert!(!layout.is_numeric());
    }
}
