//! Steps take no memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pleach_tensor::Isa;
use pleach_train::Worker;

use crate::support::{ADAM, SGD, batch, gpt, lstm, machine, mlp, resnet, trainer};

/// Counts what a thread that asks for it takes.
struct Counting;

thread_local! {
    static TAKEN: Cell<Option<usize>> = const { Cell::new(None) };
}

fn count(bytes: usize) {
    // A thread that ends has no counter any more.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get().map(|before| before + bytes)));
}

#[expect(unsafe_code, reason = "an allocator that counts")]
// SAFETY: everything is handed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steps_after_the_first_allocate_nothing() {
    for (net, solver) in [(resnet(), SGD), (mlp(), ADAM), (gpt(), ADAM), (lstm(), SGD)] {
        for nodes in [1, 4] {
            let workers = vec![Worker { nodes, machine: machine(1, Isa::best()) }];
            let mut trainer = trainer(&net, solver, nodes, workers);
            for step in 0..4 {
                let (inputs, targets) = batch(&net, step);
                TAKEN.set(Some(0));
                trainer.step(&inputs, &targets).unwrap();
                let taken = TAKEN.replace(None).unwrap();
                assert!(step == 0 || taken == 0, "{} {nodes} nodes: {taken} bytes in step {step}", net.name);
            }
        }
    }
}
