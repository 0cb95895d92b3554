//! Results do not depend on who computes them.

use pleach_tensor::Isa;
use pleach_train::Worker;

use crate::support::{ADAM, Net, SGD, bits, gpt, lstm, machine, mlp, resnet, steps, trainer};

fn run(net: &Net, solver: &str, nodes: usize, workers: Vec<Worker>) -> Vec<u32> {
    let mut trainer = trainer(net, solver, nodes, workers);
    steps(&mut trainer, net, 5);
    bits(&trainer)
}

fn one(nodes: usize, threads: usize, isa: Isa) -> Vec<Worker> {
    vec![Worker { nodes, machine: machine(threads, isa) }]
}

#[test]
fn threads_and_instruction_sets_change_no_bit() {
    for (net, solver) in [(resnet(), SGD), (mlp(), ADAM), (gpt(), ADAM), (lstm(), SGD)] {
        let want = run(&net, solver, 1, one(1, 1, Isa::best()));
        assert!(want.iter().any(|&bits| f32::from_bits(bits) != 0.0));
        for threads in 2..=4 {
            assert!(run(&net, solver, 1, one(1, threads, Isa::best())) == want, "{threads} threads");
        }
        for isa in Isa::available() {
            assert!(run(&net, solver, 1, one(1, 2, isa)) == want, "{isa}");
        }
    }
}

#[test]
fn workers_change_no_bit_of_what_virtual_nodes_give() {
    for (net, solver) in [(resnet(), SGD), (mlp(), ADAM), (gpt(), ADAM), (lstm(), SGD)] {
        for nodes in [1, 4, 7] {
            let want = run(&net, solver, nodes, one(nodes, 1, Isa::best()));
            // Uneven shares, and threads.
            for shares in [vec![nodes], vec![1, nodes - 1], vec![1, 1, nodes.saturating_sub(2)]] {
                let workers: Vec<Worker> = shares
                    .iter()
                    .enumerate()
                    .filter(|&(_, &nodes)| nodes > 0)
                    .map(|(index, &nodes)| Worker { nodes, machine: machine(1 + index % 2, Isa::best()) })
                    .collect();
                if workers.iter().map(|worker| worker.nodes).sum::<usize>() != nodes {
                    continue;
                }
                assert!(
                    run(&net, solver, nodes, workers) == want,
                    "{} {nodes} nodes as {shares:?}",
                    net.name
                );
            }
        }
    }
}

#[test]
fn another_seed_is_another_training() {
    let net = mlp();
    let first = run(&net, SGD, 1, one(1, 1, Isa::best()));
    let graph = pleach_graph::model(net.name, net.parameters.clone()).unwrap();
    let options = pleach_train::TrainerOptions {
        batch: 14,
        steps: 30,
        seed: 12,
        ..pleach_train::TrainerOptions::default()
    };
    let mut other = pleach_train::Trainer::new(graph, serde_json::from_str(SGD).unwrap(), options).unwrap();
    steps(&mut other, &net, 5);
    assert!(bits(&other) != first);
}
