//! One block of memory of a size that is known beforehand.

#![expect(unsafe_code, reason = "memory of a stated alignment is allocated by hand")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::Error;

/// Pages are the unit in which the system gives memory; 64 bytes of it would do for vectors.
const ALIGNMENT: usize = 4096;

/// Floats that lie at fixed places of one block of memory for as long as a network is trained.
#[derive(Debug)]
pub struct Arena {
    start: NonNull<f32>,
    len: usize,
}

// SAFETY: an arena owns its memory, as a `Vec<f32>` does.
unsafe impl Send for Arena {}
// SAFETY: as above; a shared arena can only be read.
unsafe impl Sync for Arena {}

impl Arena {
    /// Room for exactly `len` floats, all zero.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the system does not give that much.
    pub fn new(len: usize) -> Result<Arena, Error> {
        if len == 0 {
            return Ok(Arena { start: NonNull::dangling(), len });
        }
        let refused = Error::OutOfMemory { bytes: len.saturating_mul(size_of::<f32>()) };
        let Ok(layout) = Arena::layout(len) else { return Err(refused) };
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        Ok(Arena { start: start.cast(), len })
    }

    fn layout(len: usize) -> Result<Layout, std::alloc::LayoutError> {
        Layout::array::<f32>(len)?.align_to(ALIGNMENT)
    }

    /// All floats.
    pub fn floats(&self) -> &[f32] {
        // SAFETY: the arena owns `len` initialised floats.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// All floats, to be written.
    pub fn floats_mut(&mut self) -> &mut [f32] {
        // SAFETY: the arena owns `len` initialised floats, and is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.len > 0 {
            let layout = Arena::layout(self.len).expect("it was allocated with this layout");
            // SAFETY: allocated in `new` with the same layout.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_zero_and_aligned() {
        let mut arena = Arena::new(1000).unwrap();
        assert_eq!(arena.floats(), vec![0.0; 1000]);
        assert_eq!(arena.floats().as_ptr().align_offset(ALIGNMENT), 0);
        arena.floats_mut()[999] = 1.0;
        assert!(Arena::new(0).unwrap().floats().is_empty());
    }

    #[test]
    fn too_much_memory_is_an_error() {
        let refused = Arena::new(usize::MAX / 8).unwrap_err().to_string();
        assert!(refused.contains("smaller budget"), "{refused}");
    }
}
