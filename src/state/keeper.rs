//! Keeps what the detector of one cache has learned.

use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::place::{Place, PlaceError};
use super::wire::{Head, StateJson, Unfit};
use crate::config::StateConfig;
use crate::detect::State;
use crate::one_line::one_line;

/// Saves now and then, and at the end.
#[derive(Debug)]
pub struct Keeper {
    cache: String,
    place: Place,
    /// Seconds between two saves.
    interval: f64,
    saved: f64,
    /// The save under way; at most one, and nobody waits for a slow disk.
    saving: Option<JoinHandle<std::io::Result<()>>>,
    failing: bool,
}

#[derive(Debug, thiserror::Error)]
enum Ignored {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

impl Keeper {
    /// The keeper of one cache's state.
    pub fn new(config: &StateConfig, cache: &str) -> Keeper {
        Keeper {
            cache: cache.to_owned(),
            place: Place::new(&config.dir, cache, "state"),
            interval: config.save_interval.as_secs_f64(),
            saved: f64::NEG_INFINITY,
            saving: None,
            failing: false,
        }
    }

    /// What was kept, if it can be used at `now`, Unix seconds. What cannot is said in the log.
    pub fn recall(&mut self, now: f64) -> Option<State> {
        self.saved = now;
        match self.read(now) {
            Ok(state) => state,
            Err(error) => {
                let file = self.place.path().display();
                warn!(cache = self.cache, %file, "state not used: {}", one_line(&error));
                None
            }
        }
    }

    /// Saves when it is time, or at once after something that must not be lost.
    pub async fn keep(&mut self, now: f64, at_once: bool, state: impl FnOnce() -> State) {
        if self.saving.as_ref().is_some_and(|saving| !saving.is_finished()) {
            return;
        }
        self.settle().await;
        if at_once || now - self.saved >= self.interval {
            self.start(now, &state());
        }
    }

    /// Saves for the last time, and waits for it.
    pub async fn end(&mut self, now: f64, state: &State) {
        self.settle().await;
        self.start(now, state);
        self.settle().await;
    }

    fn read(&self, now: f64) -> Result<Option<State>, Ignored> {
        // Another version may have another form, so it is asked for first.
        let Some(head) = self.place.read::<Head>()? else { return Ok(None) };
        head.check()?;
        let Some(state) = self.place.read::<StateJson>()? else { return Ok(None) };
        Ok(Some(state.state(&self.cache, now)?))
    }

    /// A detector that has seen nothing has nothing to keep.
    fn start(&mut self, now: f64, state: &State) {
        if state.time <= 0.0 {
            return;
        }
        self.saved = now;
        let (place, json) = (self.place.clone(), StateJson::of(&self.cache, state));
        self.saving = Some(tokio::task::spawn_blocking(move || place.write(&json)));
    }

    /// Takes in how the last save went, waiting for it where it still runs.
    async fn settle(&mut self) {
        let Some(saving) = &mut self.saving else { return };
        let joined = saving.await;
        self.saving = None;
        let Ok(result) = joined else { return };
        let (cache, file) = (&self.cache, self.place.path().display());
        match (&result, self.failing) {
            (Err(error), false) => warn!(cache, %file, "state not saved: {error}"),
            (Ok(()), true) => info!(cache, %file, "state saved again"),
            _ => {}
        }
        self.failing = result.is_err();
    }
}
