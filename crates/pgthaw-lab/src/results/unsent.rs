//! What a server has not got yet, noted in the local file.

use super::Store;
use super::database::{Query, Transaction};

const MARK: &str = "
INSERT INTO unsent (server, kind, id, number, repeat, changes) VALUES ($1, $2, $3, $4, $5, 1)
ON CONFLICT (server, kind, id, number, repeat) DO UPDATE SET changes = unsent.changes + 1";

/// Something that the server does not have yet: a study without its trials, or a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unsent {
    pub id: String,
    /// Point and repeat of the trial; 0 of the study.
    pub number: u32,
    pub repeat: u32,
    /// How often it was marked.
    pub changes: i64,
}

impl Unsent {
    pub fn sweep(id: &str) -> Unsent {
        Unsent { id: id.to_owned(), number: 0, repeat: 0, changes: 0 }
    }

    pub fn sweep_trial(id: &str, number: u32, repeat: u32) -> Unsent {
        Unsent { number, repeat, ..Unsent::sweep(id) }
    }

    /// Repeats are counted from 1.
    pub fn is_trial(&self) -> bool {
        self.repeat > 0
    }

    /// A statement that is about this.
    pub fn bind(&self, sql: &'static str, server: &str) -> Query {
        let kind = if self.is_trial() { "sweep trial" } else { "sweep" };
        let query = Query::new(sql).bind(server).bind(kind).bind(&self.id);
        query.bind(i64::from(self.number)).bind(i64::from(self.repeat))
    }
}

impl Store {
    /// Notes that the server has not got this yet. A store without a server has nothing to note.
    pub(super) async fn mark_unsent(&self, transaction: &mut Transaction, unsent: &Unsent) -> Result<(), sqlx::Error> {
        let Some(queue) = &self.queue else { return Ok(()) };
        unsent.bind(MARK, &queue.server.to_string()).execute(transaction).await.map(drop)
    }
}
