//! Milliseconds of every kernel of convolutions: `cargo bench -p pleach-tensor --bench conv -- NAME`.

#![expect(clippy::print_stdout, reason = "a bench prints what it measures")]

use std::num::NonZeroUsize;
use std::time::Instant;

use pleach_tensor::{Action, Cpu, Device, Isa, Layer, Numerics, Operands, Setting, Shape, Slot, Stream};
use serde_json::{Value, json};

/// Name, shape of the images, attributes.
fn cases() -> Vec<(&'static str, [usize; 4], Value)> {
    let conv = |channels: usize, kernel: usize, stride: usize, groups: usize| {
        let padding = kernel / 2;
        json!({
            "channels": channels, "kernel": [kernel, kernel], "stride": [stride, stride],
            "padding": [padding, padding], "groups": groups, "bias": false,
        })
    };
    vec![
        ("3x3-64@32", [32, 32, 32, 64], conv(64, 3, 1, 1)),
        ("3x3-128@16", [32, 16, 16, 128], conv(128, 3, 1, 1)),
        ("3x3-256@8", [32, 8, 8, 256], conv(256, 3, 1, 1)),
        ("3x3-512@4", [32, 4, 4, 512], conv(512, 3, 1, 1)),
        ("3x3-64@56-b8", [8, 56, 56, 64], conv(64, 3, 1, 1)),
        ("3x3-128@28-b8", [8, 28, 28, 128], conv(128, 3, 1, 1)),
        ("3x3-256@14-b8", [8, 14, 14, 256], conv(256, 3, 1, 1)),
        ("3x3-512@7-b8", [8, 7, 7, 512], conv(512, 3, 1, 1)),
        ("3x3-16@32", [32, 32, 32, 16], conv(16, 3, 1, 1)),
        ("3x3-32@16", [32, 16, 16, 32], conv(32, 3, 1, 1)),
        ("3x3-64@8", [32, 8, 8, 64], conv(64, 3, 1, 1)),
        ("3x3s2-64-128@32", [32, 32, 32, 64], conv(128, 3, 2, 1)),
        ("3x3s2-128-256@16", [32, 16, 16, 128], conv(256, 3, 2, 1)),
        ("3x3s2-256-512@8", [32, 8, 8, 256], conv(512, 3, 2, 1)),
        ("1x1-64@32", [32, 32, 32, 64], conv(64, 1, 1, 1)),
        ("1x1-256-64@56-b8", [8, 56, 56, 256], conv(64, 1, 1, 1)),
        ("1x1s2-64-128@32", [32, 32, 32, 64], conv(128, 1, 2, 1)),
        ("depthwise-64@32", [32, 32, 32, 64], conv(64, 3, 1, 64)),
        ("stem-7x7@224-b8", [8, 224, 224, 3], conv(64, 7, 2, 1)),
        ("3x3-3-64@32", [32, 32, 32, 3], conv(64, 3, 1, 1)),
        ("3x3-3-16@32", [32, 32, 32, 3], conv(16, 3, 1, 1)),
        ("3x3-64@32-b1", [1, 32, 32, 64], conv(64, 3, 1, 1)),
        ("3x3-128@16-b1", [1, 16, 16, 128], conv(128, 3, 1, 1)),
        ("3x3-512@4-b1", [1, 4, 4, 512], conv(512, 3, 1, 1)),
    ]
}

fn len(slot: Slot, layer: &Layer, input: &Shape) -> usize {
    match slot {
        Slot::Input(_) | Slot::InputGrad(_) => input.len(),
        Slot::Parameter(i) | Slot::ParameterGrad(i) => layer.parameters[i].shape.len(),
        Slot::Output | Slot::OutputGrad => layer.output.len(),
        Slot::Saved(i) => layer.saved[i],
    }
}

/// The least and the median milliseconds of an action.
fn time(action: &Action, layer: &Layer, input: &Shape, isa: Isa, threads: usize) -> [f64; 2] {
    let Action::Run(call) = action else { return [0.0; 2] };
    let mut end = 0;
    let mut place = |len: usize| {
        let start = end;
        end = (start + len).next_multiple_of(16) + 16;
        start..start + len
    };
    let reads: Vec<_> = call.reads.iter().map(|&slot| place(len(slot, layer, input))).collect();
    let writes = call.writes.iter().map(|&slot| place(len(slot, layer, input))).collect();
    let workspace = place(*call.kernel.workspaces().last().expect("there is one"));
    let mut cpu = Cpu::new(end, NonZeroUsize::new(threads).expect("threads"), isa).expect("memory");
    let numbers: Vec<f32> = (0..end).map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 1009.0).collect();
    cpu.write(0, &numbers);
    let operands = Operands::new(&*call.kernel, reads, writes, workspace).expect("they fit");
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < 5 || start.elapsed().as_secs_f64() < 0.3 {
        let start = Instant::now();
        cpu.run(&*call.kernel, &operands, Stream::default());
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    [times[0], times[times.len() / 2]]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let wanted = arguments.first().cloned().unwrap_or_default();
    let numerics = match arguments.get(1).map(String::as_str) {
        Some("direct") => Numerics::Direct,
        Some("winograd-2") => Numerics::Winograd2,
        _ => Numerics::Winograd4,
    };
    let isa = match arguments.get(2).map(String::as_str) {
        Some("avx2") => Isa::Avx2,
        _ => Isa::best(),
    };
    for (name, sizes, attributes) in cases() {
        if !name.contains(&wanted) {
            continue;
        }
        let input = Shape::from(sizes);
        let setting = Setting { numerics, ..Setting::default() };
        let conv = pleach_tensor::op("conv", attributes).expect("a convolution");
        let layer = conv.build(std::slice::from_ref(&input), setting).expect("it fits");
        let mut actions = vec![&layer.forward];
        actions.extend(&layer.backward);
        let times: Vec<[f64; 2]> =
            actions.iter().map(|action| time(action, &layer, &input, isa, 2)).collect();
        let sum: f64 = times.iter().map(|time| time[0]).sum();
        let shown: Vec<String> =
            times.iter().map(|[least, median]| format!("{least:.3} ({median:.3})")).collect();
        println!("{name:18} {sum:8.3} ms = {}", shown.join(" + "));
    }
}
