//! The process that owns a file: it carries out the requests of its own handles, and those that
//! come through the socket.
//!
//! One thread at a time holds the engine. Whoever gets hold of it carries out everything that
//! waits, in one transaction, and leaves the answers; so while one commit is under way the next
//! batch gathers, and a lone handle pays for no change of threads.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::engine::{Engine, Job};
use crate::place::{Lock, Place};
use crate::process::Holder;
use crate::protocol::{Envelope, Hello, PROTOCOL, Reply, Welcome};
use crate::socket::{self, Listener};
use crate::store::Store;
use crate::{Error, StoreOptions};

/// Most requests that share a transaction.
const MAX_BATCH: usize = 256;

/// How often leases are looked at.
const TICK: Duration = Duration::from_millis(200);

/// The owner of a file, within its process.
#[derive(Debug)]
pub(crate) struct Owner {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    listener: Arc<Listener>,
    // Given up last: the next owner must find the file closed.
    lock: Lock,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Vec<(Job, Slot)>>,
    /// `None` once the owner is closed.
    engine: Mutex<Option<Engine>>,
    closing: AtomicBool,
    /// Open connections, so that closing can end them.
    connections: Mutex<BTreeMap<u64, UnixStream>>,
}

/// Where an answer is left.
type Slot = Arc<Mutex<Option<Reply>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic may have left half-done is rebuilt by the engine.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Owner {
    /// Opens the file that `lock` is of, and its socket.
    pub(crate) fn start(
        place: &Place,
        lock: Lock,
        me: Holder,
        options: &StoreOptions,
    ) -> Result<Self, Error> {
        // The socket comes first, so that others queue while the file is being opened.
        let listener = Arc::new(Listener::bind(place)?);
        let engine = Engine::new(Store::open(place, options.durability)?, options)?;
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            engine: Mutex::new(Some(engine)),
            closing: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let serve = {
            let (shared, listener) = (shared.clone(), listener.clone());
            move || shared.accept(&listener)
        };
        let tick = {
            let shared = shared.clone();
            move || shared.tick(me)
        };
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(format!("pleach-{name}")).spawn(run);
            thread.map_err(|error| Error::io("start a thread for", place.file(), error))
        };
        let threads = vec![spawn("socket", Box::new(serve))?, spawn("leases", Box::new(tick))?];
        Ok(Self { shared, threads, listener, lock })
    }

    /// Carries out a request; on return it is recorded.
    pub(crate) fn call(&self, caller: Holder, envelope: Envelope) -> Reply {
        self.shared.call(Job { caller, envelope })
    }

    /// Ends ownership; with `snapshot` the next opening will be quick.
    pub(crate) fn close(self, snapshot: bool) -> Result<(), Error> {
        let engine = lock(&self.shared.engine).take();
        self.shared.closing.store(true, Ordering::Release);
        let result = match engine {
            Some(engine) if snapshot => engine.finish(),
            _ => Ok(()),
        };
        self.listener.wake();
        for connection in lock(&self.shared.connections).values() {
            // Its thread sees the end, and the client looks for the next owner.
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads {
            thread.thread().unpark();
            let _ = thread.join();
        }
        drop(self.listener);
        drop(self.lock);
        result
    }
}

impl Shared {
    fn call(&self, job: Job) -> Reply {
        let slot = Slot::default();
        lock(&self.waiting).push((job, slot.clone()));
        let mut engine = lock(&self.engine);
        loop {
            if let Some(reply) = lock(&slot).take() {
                return reply;
            }
            let batch = {
                let mut waiting = lock(&self.waiting);
                let n = waiting.len().min(MAX_BATCH);
                waiting.drain(..n).collect::<Vec<_>>()
            };
            let (jobs, slots): (Vec<Job>, Vec<Slot>) = batch.into_iter().unzip();
            let replies = match &mut *engine {
                Some(engine) => engine.run(&jobs),
                None => jobs.iter().map(|_| Err(Error::Closed)).collect(),
            };
            for (slot, reply) in slots.iter().zip(replies) {
                *lock(slot) = Some(reply);
            }
        }
    }

    fn accept(self: &Arc<Self>, listener: &Listener) {
        for id in 0.. {
            let Some(stream) = listener.accept() else { return };
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let Ok(copy) = stream.try_clone() else { continue };
            lock(&self.connections).insert(id, copy);
            let shared = self.clone();
            let serve = move || {
                if let Err(error) = shared.serve(&stream) {
                    tracing::debug!(%error, "the connection to a client broke");
                }
                lock(&shared.connections).remove(&id);
            };
            // Without a thread the connection ends, and the client tries again.
            let _ = thread::Builder::new().name("pleach-client".into()).spawn(serve);
        }
    }

    fn serve(&self, stream: &UnixStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let mut writer = stream;
        let welcome = Welcome { pleach: PROTOCOL, version: env!("CARGO_PKG_VERSION").into() };
        writer.write_all(&socket::line(&welcome)?)?;
        let Ok(Hello { pleach: PROTOCOL, caller }) = serde_json::from_str(&line) else { return Ok(()) };
        loop {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let reply = match serde_json::from_str::<Envelope>(&line) {
                Ok(envelope) => self.call(Job { caller, envelope }),
                Err(error) => Err(Error::refused(format!("the request cannot be read: {error}"))),
            };
            if matches!(reply, Err(Error::Closed)) {
                return Ok(());
            }
            writer.write_all(&socket::line(&reply.map_err(Error::for_wire))?)?;
        }
    }

    fn tick(&self, me: Holder) {
        while !self.closing.load(Ordering::Acquire) {
            thread::park_timeout(TICK);
            if let Some(engine) = &mut *lock(&self.engine) {
                engine.tick(me);
            }
        }
    }
}
