//! The way from a handle to the owner of its file: within this process, or through the socket.
//!
//! When the owner dies, the first to notice becomes the next one and the others connect to it; a
//! request under way is sent again under the same ticket, so that it counts once.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::owner::Owner;
use crate::place::{Lock, Place};
use crate::process::{Holder, random};
use crate::protocol::{Answer, Envelope, Hello, PROTOCOL, Reply, Request, Ticket, Welcome};
use crate::{Error, StoreOptions, socket};

/// The way from a handle to the owner of its file.
#[derive(Debug)]
pub(crate) struct Link {
    place: Place,
    options: StoreOptions,
    me: Holder,
    state: RwLock<State>,
    /// Sessions that no thread uses at the moment.
    idle: Mutex<Vec<Session>>,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Counts the changes of `mode`.
    generation: u64,
}

#[derive(Debug)]
enum Mode {
    Owner(Owner),
    Client,
    Closed,
}

/// A sequence of requests, one at a time.
#[derive(Debug)]
struct Session {
    id: u64,
    requests: u64,
    connection: Option<BufReader<UnixStream>>,
}

impl Link {
    /// Becomes the owner of the file, or finds it.
    pub(crate) fn new(place: Place, options: &StoreOptions) -> Result<Self, Error> {
        let me = Holder::register(options.lease);
        let idle = Mutex::default();
        let link = Self {
            place,
            options: options.clone(),
            me,
            state: RwLock::new(State { mode: Mode::Closed, generation: 0 }),
            idle,
        };
        let mode = link.attach()?;
        link.state.write().unwrap_or_else(PoisonError::into_inner).mode = mode;
        Ok(link)
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Carries out a request, whoever owns the file.
    pub(crate) fn call(&self, study: i64, request: Request) -> Reply {
        let mut session = self.session();
        session.requests += 1;
        let ticket = Ticket { session: session.id, request: session.requests };
        let mut envelope = Envelope { ticket: None, study, request };
        let reply = loop {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let generation = state.generation;
            match &state.mode {
                // Without a ticket unless it was sent to another owner before.
                Mode::Owner(owner) => break owner.call(self.me, envelope),
                Mode::Closed => break Err(Error::Closed),
                Mode::Client => {
                    envelope.ticket = Some(ticket);
                    match session.exchange(&self.place, self.me, &envelope, self.options.patience) {
                        Ok(reply) => break reply,
                        Err(Broken::Final(error)) => break Err(error),
                        Err(Broken::Gone) => {}
                    }
                }
            }
            drop(state);
            if let Err(error) = self.reattach(generation) {
                break Err(error);
            }
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        reply
    }

    fn session(&self) -> Session {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| Session { id: random(), requests: 0, connection: None })
    }

    /// Looks for an owner again, unless another thread has since `generation`.
    fn reattach(&self, generation: u64) -> Result<(), Error> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.generation == generation {
            state.mode = self.attach()?;
            state.generation += 1;
        }
        Ok(())
    }

    fn attach(&self) -> Result<Mode, Error> {
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(lock) = Lock::try_take(&self.place)? {
                return Ok(Mode::Owner(Owner::start(&self.place, lock, self.me, &self.options)?));
            }
            // Between the lock and the socket of a new owner, and after the death of one, there is
            // nobody to connect to for a moment.
            let mut session = self.session();
            match session.connect(&self.place, self.me, self.options.patience) {
                Ok(()) => {
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
                    return Ok(Mode::Client);
                }
                Err(Broken::Final(error)) => return Err(error),
                Err(Broken::Gone) => {}
            }
            if start.elapsed() > self.options.patience {
                return Err(silent(&self.place, start.elapsed()));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Gives back what the handle holds and ends it.
    pub(crate) fn close(&mut self, study: i64) -> Result<(), Error> {
        let sessions = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            // Those of a client that were never connected are not known to anybody.
            idle.iter_mut().filter(|session| session.requests > 0).map(|session| session.id).collect()
        };
        if matches!(self.state.get_mut().unwrap_or_else(PoisonError::into_inner).mode, Mode::Closed) {
            return Ok(());
        }
        let farewell = self.call(study, Request::Close { sessions }).map(drop);
        self.end(true).and(farewell)
    }

    /// Ends the handle as the death of its process would, but for the lock and the socket.
    pub(crate) fn end(&mut self, in_order: bool) -> Result<(), Error> {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mode = std::mem::replace(&mut state.mode, Mode::Closed);
        self.me.retire();
        match mode {
            Mode::Owner(owner) => owner.close(in_order),
            Mode::Client | Mode::Closed => Ok(()),
        }
    }
}

/// Why a session got no answer.
enum Broken {
    /// The owner is gone; there will be another one.
    Gone,
    Final(Error),
}

impl Session {
    fn connect(&mut self, place: &Place, me: Holder, patience: Duration) -> Result<(), Broken> {
        let stream = socket::connect(place).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                Broken::Gone
            }
            _ => Broken::Final(Error::io("connect to", &place.socket(), error)),
        })?;
        stream.set_read_timeout(Some(patience)).map_err(|_| Broken::Gone)?;
        self.connection = Some(BufReader::new(stream));
        let hello = Hello { pleach: PROTOCOL, caller: me };
        let welcome: Welcome = self.ask(place, &hello, patience)?;
        if welcome.pleach != PROTOCOL {
            self.connection = None;
            return Err(Broken::Final(Error::OtherVersion {
                path: place.file().to_owned(),
                owner: welcome.version,
            }));
        }
        Ok(())
    }

    /// Sends a request, and connects first if need be.
    fn exchange(
        &mut self,
        place: &Place,
        me: Holder,
        envelope: &Envelope,
        patience: Duration,
    ) -> Result<Reply, Broken> {
        if self.connection.is_none() {
            self.connect(place, me, patience)?;
        }
        self.ask(place, envelope, patience)
    }

    fn ask<A: serde::de::DeserializeOwned>(
        &mut self,
        place: &Place,
        question: &impl serde::Serialize,
        patience: Duration,
    ) -> Result<A, Broken> {
        let Some(mut connection) = self.connection.take() else { return Err(Broken::Gone) };
        let mut line = String::new();
        let exchange = socket::line(question)
            .and_then(|question| connection.get_mut().write_all(&question))
            .and_then(|()| {
                if !socket::is_readable_within(connection.get_ref(), socket::SLOW).unwrap_or(true) {
                    tracing::warn!(
                        "{} is owned by process {}, which has not answered for {} s; still waiting",
                        place.file().display(),
                        Lock::holder(place),
                        socket::SLOW.tv_sec
                    );
                }
                connection.read_line(&mut line)
            });
        match exchange {
            Ok(0) => Err(Broken::Gone),
            Ok(_) if !line.ends_with('\n') => Err(Broken::Gone),
            Ok(_) => {
                self.connection = Some(connection);
                serde_json::from_str(&line).map_err(|error| {
                    Broken::Final(Error::refused(format!(
                        "the answer of the owner of {} cannot be read: {error}",
                        place.file().display()
                    )))
                })
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(Broken::Final(silent(place, patience)))
            }
            Err(_) => Err(Broken::Gone),
        }
    }
}

fn silent(place: &Place, time: Duration) -> Error {
    Error::Silent { path: place.file().to_owned(), pid: Lock::holder(place), seconds: time.as_secs() }
}

/// The answer was of another kind than the request.
pub(crate) fn unexpected(answer: &Answer) -> Error {
    Error::refused(format!("unexpected answer of the owner: {answer:?}"))
}
