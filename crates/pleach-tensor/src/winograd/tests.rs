//! Winograd's convolution against the definition in `f64`, and against itself on other machines.

use std::num::NonZeroUsize;

use super::{Tile, forward, input_grad, tile, weight_grad};
use crate::geometry::Geometry;
use crate::{Cpu, Device, Isa, Kernel, Numerics, Operands, Stream};

/// Runs a kernel in a workspace full of NaN.
fn run(
    kernel: &dyn Kernel,
    reads: &[&[f32]],
    write: usize,
    isa: Isa,
    threads: usize,
    workspace: usize,
) -> Vec<f32> {
    let mut end = 0;
    let mut place = |len: usize| {
        let range = end..end + len;
        end = range.end.next_multiple_of(16);
        range
    };
    let ranges: Vec<_> = reads.iter().map(|read| place(read.len())).collect();
    let write = place(write);
    let operands = Operands::new(kernel, ranges.clone(), vec![write.clone()], place(workspace)).unwrap();
    let mut cpu = Cpu::new(end, NonZeroUsize::new(threads).unwrap(), isa).unwrap();
    cpu.write(0, &vec![f32::NAN; end]);
    for (range, read) in ranges.iter().zip(reads) {
        cpu.write(range.start, read);
    }
    cpu.run(kernel, &operands, Stream::default());
    cpu.floats()[write].to_vec()
}

/// Normal numbers from a small generator.
#[expect(clippy::cast_possible_truncation, reason = "random numbers")]
fn normal(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as f64 + 0.5) / (1u64 << 31) as f64
    };
    (0..n)
        .map(|_| ((-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()) as f32)
        .collect()
}

/// What a convolution and its gradients work on.
struct Case {
    geometry: Geometry,
    x: Vec<f32>,
    w: Vec<f32>,
    bias: Vec<f32>,
    dy: Vec<f32>,
}

/// Images as after a ReLU, filters as at the start of training, and any gradient.
fn case(geometry: Geometry) -> Case {
    let Geometry { n, h, w, c, k, .. } = geometry;
    let (oh, ow) = (geometry.out_h(), geometry.out_w());
    let scale = (2.0 / (9.0 * c as f32)).sqrt();
    Case {
        geometry,
        x: normal(n * h * w * c, 1).into_iter().map(|x| x.max(0.0)).collect(),
        w: normal(9 * c * k, 2).into_iter().map(|w| w * scale).collect(),
        bias: normal(k, 3),
        dy: normal(n * oh * ow * k, 4),
    }
}

/// The output and the gradients by images and filters, as the definition says.
fn definition(case: &Case, bias: bool) -> [Vec<f64>; 3] {
    let Geometry { n, h, w, c, k, padding, .. } = case.geometry;
    let (oh, ow) = (case.geometry.out_h(), case.geometry.out_w());
    let mut y: Vec<f64> =
        (0..case.dy.len()).map(|i| if bias { f64::from(case.bias[i % k]) } else { 0.0 }).collect();
    let (mut dx, mut dw) = (vec![0.0; case.x.len()], vec![0.0; case.w.len()]);
    let weights: Vec<f64> = case.w.iter().map(|&w| f64::from(w)).collect();
    let grads: Vec<f64> = case.dy.iter().map(|&dy| f64::from(dy)).collect();
    for at in 0..n * oh * ow {
        let (image, row, column) = (at / (oh * ow), at / ow % oh, at % ow);
        for tap in 0..9 {
            let (i, j) =
                ((row + tap / 3).wrapping_sub(padding[0]), (column + tap % 3).wrapping_sub(padding[1]));
            if i >= h || j >= w {
                continue;
            }
            let pixel = (image * h + i) * w + j;
            for channel in 0..c {
                let x = f64::from(case.x[pixel * c + channel]);
                let filter = (tap * c + channel) * k;
                let mut sum = 0.0;
                for output in 0..k {
                    let dy = grads[at * k + output];
                    y[at * k + output] += x * weights[filter + output];
                    dw[filter + output] += x * dy;
                    sum += weights[filter + output] * dy;
                }
                dx[pixel * c + channel] += sum;
            }
        }
    }
    [y, dx, dw]
}

/// A kernel, what it reads and how much it writes.
type Work<'a> = (Box<dyn Kernel>, Vec<&'a [f32]>, usize);

/// The kernels of the output and of both gradients.
fn kernels(case: &Case, tile: Tile, bias: bool) -> [Work<'_>; 3] {
    let mut reads: Vec<&[f32]> = vec![&case.x, &case.w];
    if bias {
        reads.push(&case.bias);
    }
    [
        (Box::new(forward(&case.geometry, tile)), reads, case.dy.len()),
        (Box::new(input_grad(&case.geometry, tile)), vec![&case.dy, &case.w], case.x.len()),
        (Box::new(weight_grad(&case.geometry, tile)), vec![&case.x, &case.dy], case.w.len()),
    ]
}

fn geometry([n, h, w, c, k]: [usize; 5], padding: [usize; 4]) -> Geometry {
    Geometry { n, h, w, c, k, r: 3, s: 3, stride: [1, 1], padding, dilation: [1, 1], groups: 1 }
}

#[test]
fn any_shape_agrees_with_the_definition_with_the_same_bits_everywhere() {
    for (sizes, padding) in [
        ([1, 1, 1, 1, 1], [1; 4]),
        ([2, 3, 5, 1, 2], [0, 2, 0, 2]),
        ([1, 4, 4, 3, 17], [1; 4]),
        ([2, 7, 6, 16, 33], [2, 0, 1, 0]),
        ([3, 5, 9, 37, 5], [1, 2, 2, 1]),
        ([1, 9, 9, 65, 70], [1; 4]),
        ([5, 13, 14, 20, 35], [1; 4]),
        ([11, 12, 13, 66, 65], [1; 4]),
        ([1, 6, 5, 300, 40], [1; 4]),
        ([2, 4, 4, 33, 130], [1; 4]),
    ] {
        let case = case(geometry(sizes, padding));
        for tile in [Tile::F2, Tile::F4] {
            // Each way once; scalar arithmetic is slow.
            let bias = tile == Tile::F2;
            let want = definition(&case, bias);
            for ((kernel, reads, write), want) in kernels(&case, tile, bias).into_iter().zip(want) {
                let name = format!("{sizes:?} {padding:?} {kernel:?}");
                let sizes = kernel.workspaces();
                let got = run(&*kernel, &reads, write, Isa::Scalar, 1, sizes[0]);
                let scale = want.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                for (got, want) in got.iter().zip(&want) {
                    assert!((f64::from(*got) - want).abs() <= 1e-5 * scale, "{name}: {got} for {want}");
                }
                for isa in Isa::available() {
                    for &size in &sizes {
                        for threads in if isa == Isa::Scalar { 2..=2 } else { 1..=3 } {
                            let other = run(&*kernel, &reads, write, isa, threads, size);
                            let same = got.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits());
                            assert!(same, "{name} {isa} {threads} threads, {size} floats");
                        }
                    }
                }
            }
        }
    }
}

/// Rounding errors over the root mean square, and the largest over the largest value.
fn errors(got: &[f32], want: &[f64]) -> (f64, f64) {
    let (mut squares, mut all, mut most, mut largest) = (0.0, 0.0, 0.0f64, 0.0f64);
    for (&got, &want) in got.iter().zip(want) {
        let off = f64::from(got) - want;
        (squares, all) = (squares + off * off, all + want * want);
        (most, largest) = (most.max(off.abs()), largest.max(want.abs()));
    }
    (f64::sqrt(squares / all), most / largest)
}

#[test]
fn a_small_output_gets_a_small_tile() {
    for (size, want) in
        [(1, None), (2, Some(Tile::F2)), (4, Some(Tile::F4)), (7, Some(Tile::F4)), (32, Some(Tile::F4))]
    {
        let g = geometry([1, size, size, 16, 18], [1; 4]);
        assert_eq!(tile(&g, Numerics::Winograd4), want, "{size}");
        assert_eq!(tile(&g, Numerics::Winograd2), want.map(|_| Tile::F2), "{size}");
        assert_eq!(tile(&g, Numerics::Direct), None);
        assert_eq!(tile(&Geometry { stride: [2, 1], ..g }, Numerics::Winograd4), None);
        assert_eq!(tile(&Geometry { c: 3, ..g }, Numerics::Winograd4), None);
        assert_eq!(tile(&Geometry { groups: 2, ..g }, Numerics::Winograd4), None);
    }
}

#[test]
fn rounding_errors_are_small() {
    for sizes in [[4, 16, 16, 64, 64], [16, 4, 4, 128, 128], [2, 14, 14, 128, 48]] {
        let case = case(geometry(sizes, [1; 4]));
        let want = definition(&case, false);
        for tile in [Tile::F2, Tile::F4] {
            for (i, (kernel, reads, write)) in kernels(&case, tile, false).into_iter().enumerate() {
                let size = *kernel.workspaces().last().unwrap();
                let got = run(&*kernel, &reads, write, Isa::best(), 2, size);
                let (rms, most) = errors(&got, &want[i]);
                // Twice a direct sum's for 2×2, and as measured on whole layers for 4×4.
                let bound = match (tile, i) {
                    (Tile::F2, 0 | 1) => 1.0e-6,
                    (Tile::F2, _) => 2.0e-6,
                    (Tile::F4, 0 | 1) => 3.0e-6,
                    (Tile::F4, _) => 4.0e-6,
                };
                assert!(
                    rms <= bound && most <= 5e-6,
                    "{sizes:?} {tile:?} {i}: rms {rms:.1e}, most {most:.1e}"
                );
            }
        }
    }
}
