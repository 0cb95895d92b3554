//! Windows that move over images.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Error, Shape};

/// A number for both directions of an image, or one for each, height first: `3` or `[1, 7]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a whole number, or two for height and width")]
pub(super) enum Pair {
    Both(usize),
    Each([usize; 2]),
}

impl Pair {
    pub(super) fn sizes(self) -> [usize; 2] {
        match self {
            Pair::Both(size) => [size; 2],
            Pair::Each(sizes) => sizes,
        }
    }
}

/// Where windows of some size lie on images that are padded on all sides.
///
/// Of pairs the first is height, the second width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub(super) batch: usize,
    pub(super) channels: usize,
    pub(super) input: [usize; 2],
    pub(super) output: [usize; 2],
    pub(super) size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
}

impl Windows {
    /// Windows on `[n, h, w, channels]` of which each covers a pixel.
    pub(super) fn new(
        op: &'static str,
        shapes: &[Shape],
        size: Pair,
        stride: Pair,
        padding: Pair,
    ) -> Result<Windows, Error> {
        let [input] = super::inputs(op, shapes)?;
        let misfit = |reason: &str| Err(super::misfit(op, shapes, reason));
        let &[batch, h, w, channels] = input.sizes() else {
            return misfit("it takes [n, h, w, channels]");
        };
        let (size, stride, padding) = (size.sizes(), stride.sizes(), padding.sizes());
        let (input, mut output) = ([h, w], [0; 2]);
        for side in 0..2 {
            if size[side] == 0 || stride[side] == 0 {
                return misfit("windows and strides are one pixel and more");
            }
            if padding[side] > size[side] / 2 {
                return misfit("the padding is at most half of the window");
            }
            let Some(room) = input[side].saturating_add(2 * padding[side]).checked_sub(size[side]) else {
                return misfit("the window is larger than the padded image");
            };
            output[side] = room / stride[side] + 1;
        }
        Ok(Windows { batch, channels, input, output, size, stride, padding })
    }

    /// One window on all places of each example of `[n, …, channels]`.
    pub(super) fn global(op: &'static str, shapes: &[Shape]) -> Result<Windows, Error> {
        let [input] = super::inputs(op, shapes)?;
        if input.rank() < 3 || input.is_empty() {
            return Err(super::misfit(op, shapes, "it takes [n, …, channels]"));
        }
        let (batch, channels) = (input.batch(), input.features());
        let all = [1, input.len() / (batch * channels)];
        Ok(Windows {
            batch,
            channels,
            input: all,
            output: [1; 2],
            size: all,
            stride: [1; 2],
            padding: [0; 2],
        })
    }

    pub(super) fn output(&self) -> Shape {
        Shape::from([self.batch, self.output[0], self.output[1], self.channels])
    }

    /// The pixels under a window, along one side.
    #[inline(always)]
    pub(super) fn pixels(&self, side: usize, window: usize) -> Range<usize> {
        let start = window * self.stride[side];
        let end = (start + self.size[side] - self.padding[side]).min(self.input[side]);
        start.saturating_sub(self.padding[side])..end
    }

    /// The windows over a pixel, along one side.
    #[inline(always)]
    pub(super) fn over(&self, side: usize, pixel: usize) -> Range<usize> {
        let padded = pixel + self.padding[side];
        let end = (padded / self.stride[side] + 1).min(self.output[side]);
        let start = (padded + 1).saturating_sub(self.size[side]).div_ceil(self.stride[side]);
        start.min(end)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_and_windows_see_each_other() {
        for (height, size, stride, padding) in
            [(7, 3, 2, 1), (8, 2, 2, 0), (5, 1, 3, 0), (6, 5, 1, 2), (4, 3, 3, 0)]
        {
            let [size, stride, padding] = [size, stride, padding].map(Pair::Both);
            let shapes = [Shape::from([1, height, height, 1])];
            let windows = Windows::new("test", &shapes, size, stride, padding).unwrap();
            for window in 0..windows.output[0] {
                assert!(!windows.pixels(0, window).is_empty());
                for pixel in 0..height {
                    let covered = windows.pixels(0, window).contains(&pixel);
                    assert_eq!(
                        windows.over(0, pixel).contains(&window),
                        covered,
                        "{windows:?} {pixel} {window}"
                    );
                }
            }
        }
    }

    #[test]
    fn windows_that_do_not_fit_are_refused() {
        let refuse = |size, stride, padding| {
            let [size, stride, padding] = [size, stride, padding].map(Pair::Both);
            Windows::new("test", &[[1, 4, 4, 1].into()], size, stride, padding).unwrap_err()
        };
        assert!(refuse(5, 1, 0).to_string().contains("larger than the padded image"));
        assert!(refuse(3, 0, 0).to_string().contains("strides"));
        assert!(refuse(3, 1, 2).to_string().contains("half of the window"));
    }
}
