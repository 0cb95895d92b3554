//! Which taps of a filter meet which pixels, along one axis.

use crate::geometry::Geometry;

/// What a pixel sums along an axis: pairs of a tap of the filter and the pixel that it meets, the
/// pixels ascending.
pub(super) type Taps = Vec<[usize; 2]>;

/// For all rows and all columns of the output: which inputs they read.
pub(super) fn forward_taps(g: &Geometry) -> [Vec<Taps>; 2] {
    axes(g).map(|axis| {
        let taps = |output: usize| {
            (0..axis.filter)
                .filter_map(|tap| {
                    let input = (output * axis.stride + tap * axis.dilation).checked_sub(axis.padding)?;
                    (input < axis.inputs).then_some([tap, input])
                })
                .collect()
        };
        (0..axis.outputs).map(taps).collect()
    })
}

/// For all rows and all columns of the input: which outputs read them.
pub(super) fn input_taps(g: &Geometry) -> [Vec<Taps>; 2] {
    axes(g).map(|axis| {
        let taps = |input: usize| {
            (0..axis.filter)
                .rev()
                .filter_map(|tap| {
                    let at = (input + axis.padding).checked_sub(tap * axis.dilation)?;
                    let output = at / axis.stride;
                    (at.is_multiple_of(axis.stride) && output < axis.outputs).then_some([tap, output])
                })
                .collect()
        };
        (0..axis.inputs).map(taps).collect()
    })
}

/// The same with the distance from the first pixel in place of the pixel: what is alike for pixels
/// away from borders.
pub(super) fn distances(taps: &[[usize; 2]]) -> Taps {
    taps.iter().map(|&[tap, pixel]| [tap, pixel - taps[0][1]]).collect()
}

struct Axis {
    outputs: usize,
    inputs: usize,
    filter: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
}

fn axes(g: &Geometry) -> [Axis; 2] {
    let sizes = [(g.out_h(), g.h, g.r), (g.out_w(), g.w, g.s)];
    [0, 1].map(|axis| Axis {
        outputs: sizes[axis].0,
        inputs: sizes[axis].1,
        filter: sizes[axis].2,
        stride: g.stride[axis],
        dilation: g.dilation[axis],
        padding: g.padding[axis],
    })
}
