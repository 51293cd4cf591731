//! The board between the monitors that write and the server that reads.
//!
//! Each monitor replaces its cache's snapshot; a request takes whatever hangs there and never waits.

use std::sync::Arc;

use tokio::sync::watch;

use crate::snapshot::Snapshot;

/// What hangs on the board.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// One snapshot a configured cache, in configuration order.
    pub caches: Vec<Arc<Snapshot>>,
    /// Whether the last reload of the configuration worked; `true` until one fails.
    pub reload_successful: bool,
}

/// The board; clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Board(watch::Sender<View>);

impl Board {
    /// A board for these caches, with empty snapshots until their monitors publish.
    pub fn new(caches: impl IntoIterator<Item = Arc<str>>) -> Board {
        let caches = caches.into_iter().map(empty).collect();
        Board(watch::Sender::new(View { caches, reload_successful: true }))
    }

    /// Hangs up what is known of a cache before its first poll, unless a monitor before has polled
    /// it: then that one's last snapshot says more until the new one has looked.
    pub fn introduce(&self, snapshot: Snapshot) {
        let polled = |s: &Arc<Snapshot>| s.cache == snapshot.cache && s.polls > 0;
        if !self.view().caches.iter().any(polled) {
            self.publish(snapshot);
        }
    }

    /// Hangs up a cache's newest snapshot. A cache that a reload took away is not put back.
    pub fn publish(&self, snapshot: Snapshot) {
        self.0.send_modify(|view| {
            if let Some(place) = view.caches.iter_mut().find(|s| s.cache == snapshot.cache) {
                *place = Arc::new(snapshot);
            }
        });
    }

    /// Notes a reload: the caches of the new configuration keep the snapshots they have.
    pub fn reloaded(&self, caches: impl IntoIterator<Item = Arc<str>>) {
        self.0.send_modify(|view| {
            let kept = |name: Arc<str>| {
                view.caches.iter().find(|s| s.cache == name).cloned().unwrap_or_else(|| empty(name))
            };
            view.caches = caches.into_iter().map(kept).collect();
            view.reload_successful = true;
        });
    }

    /// Notes a reload that failed; everything else stays as it is.
    pub fn reload_failed(&self) {
        self.0.send_modify(|view| view.reload_successful = false);
    }

    /// What hangs there now.
    pub fn view(&self) -> View {
        self.0.borrow().clone()
    }

    /// A receiver that notices every change.
    pub fn subscribe(&self) -> watch::Receiver<View> {
        self.0.subscribe()
    }
}

fn empty(cache: Arc<str>) -> Arc<Snapshot> {
    Arc::new(Snapshot { cache, ..Snapshot::default() })
}
