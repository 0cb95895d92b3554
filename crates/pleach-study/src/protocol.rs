//! What handles ask of the owner of a file, as values and as lines of JSON.
//!
//! A client greets with a [`Hello`], the owner answers with a [`Welcome`]; then each line of the
//! client is an [`Envelope`] and each line of the owner the result of its request.

use std::collections::BTreeMap;

use pleach_search::{Literal, Parameter};
use serde::{Deserialize, Serialize};

use crate::process::Holder;
use crate::{Assignment, Error, ImportRow, Progress, Spec, State, Tell};

/// Changes with every change of the lines.
pub(crate) const PROTOCOL: u32 = 1;

/// The first line of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) pleach: u32,
    pub(crate) caller: Holder,
}

/// The first line of an owner.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) pleach: u32,
    pub(crate) version: String,
}

/// Names a request, so that it is carried out once even if it is sent again to another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    /// A random number of the sender, who sends the next request after the answer to the last one.
    pub(crate) session: u64,
    /// Counts the requests of the session.
    pub(crate) request: u64,
}

/// A request on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) ticket: Option<Ticket>,
    /// Id of the study; 0 for requests about the file.
    pub(crate) study: i64,
    pub(crate) request: Request,
}

/// The requests; [`crate::Study`] says what they mean.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Create(Box<Spec>),
    Open(Option<String>),
    Remove(String),
    Spec,
    Ask {
        worker: String,
        n: usize,
        limit: Option<u64>,
    },
    Tell {
        number: u64,
        attempt: Option<u32>,
        tell: Tell,
        ask: Option<NextAsk>,
    },
    Report {
        number: u64,
        step: u64,
        #[serde(with = "crate::trial::numbers")]
        metrics: BTreeMap<String, f64>,
    },
    Renew {
        worker: String,
        numbers: Vec<u64>,
    },
    Enqueue(BTreeMap<String, Literal>),
    Import(Vec<ImportRow>),
    Cancel(u64),
    Retry(u64),
    EditSpace(Vec<Parameter>),
    Progress,
    /// The handle is being closed, and its sessions with it.
    Close {
        sessions: Vec<u64>,
    },
}

/// The ask that follows a tell in the same commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NextAsk {
    pub(crate) worker: String,
    pub(crate) limit: Option<u64>,
}

impl Request {
    /// Whether it changes the database.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self, Request::Open(_) | Request::Spec | Request::Renew { .. } | Request::Progress)
    }

    /// Whether carrying it out twice differs from once, so that its answer is kept.
    pub(crate) fn counts_once(&self) -> bool {
        matches!(
            self,
            Request::Ask { .. }
                | Request::Tell { .. }
                | Request::Enqueue(_)
                | Request::Import(_)
                | Request::Cancel(_)
                | Request::Retry(_)
                | Request::EditSpace(_)
                | Request::Remove(_)
        )
    }
}

/// What the owner answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Study { id: i64, name: String, created_ms: i64 },
    Spec(Box<Spec>),
    Trials(Vec<Assignment>),
    Told { state: State, next: Option<Assignment> },
    GoOn(bool),
    Numbers(Vec<u64>),
    Number(u64),
    Progress(Box<Progress>),
    Nothing,
}

/// The line of the owner for each request.
pub(crate) type Reply = Result<Answer, Error>;
