//! What the demo consists of: the drill's stage, its load, and the exporter on a real page.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::DemoError;
use crate::drill::backend::Key;
use crate::drill::stage::{Stage, Traffic};
use crate::drill::watch::{Watch, WatchShape};
use crate::drill::{DrillError, Options, Protections, Scenario};
use crate::serve::serve;

/// Requests a second.
pub(super) const RATE: f64 = 2000.0;
/// Share of them that asks for the hot entry.
pub(super) const HOT_SHARE: f64 = 0.3;
/// The hot entry, say the front page.
pub(super) const HOT: Key = 0;
/// Time of one load of the hot entry: a report over the whole database.
pub(super) const HOT_LOAD: Duration = Duration::from_secs(3);
/// Entries of the small service.
const KEYS: u32 = 500;
/// Time of a load of any other entry.
const LOAD: Duration = Duration::from_millis(50);
/// Life of an entry: a few of the 500 run out every second, so there is a normal rate of misses.
pub(super) const LIFE: Duration = Duration::from_secs(60);
/// The backend takes all that comes, so that the demo shows how much that is.
const POOL: usize = 10_000;
/// The calm that the exporter has to learn from.
pub(super) const CALM: Duration = Duration::from_secs(16);
/// What the table's ratios and rates are over: short, so that it is live.
const WINDOW: Duration = Duration::from_secs(2);

/// All of it.
pub(super) struct House {
    pub(super) stage: Stage,
    pub(super) watch: Watch,
    /// Where the exporter's page is.
    pub(super) page: SocketAddr,
    traffic: Option<Traffic>,
    server: JoinHandle<std::io::Result<()>>,
    end: oneshot::Sender<()>,
}

impl House {
    /// Puts it up, with a warm cache and the load running.
    pub(super) async fn open() -> Result<House, DemoError> {
        let options = Options {
            scenario: Scenario::HotKey,
            rate: RATE,
            keys: KEYS,
            zipf: 0.6,
            hot_share: HOT_SHARE,
            ttl: LIFE,
            load_time: LOAD,
            hot_load_time: Some(HOT_LOAD),
            pool: POOL,
            ..Options::default()
        };
        let stage = Stage::open(&options).await?;
        let bare = stage.service(&Protections::default());
        stage.fill(&bare).await.map_err(DrillError::from)?;
        // The hot entry runs out when its act has come, not before.
        stage.write([(HOT, LIFE * 10)].into_iter()).await.map_err(DrillError::from)?;
        let traffic = stage.load(bare)?;
        let watch = stage.watch(WatchShape {
            name: "demo".into(),
            record_dir: None,
            calm: CALM,
            window: WINDOW,
            ttl_keys_per_second: KEYS,
        })?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let page = listener.local_addr()?;
        let (end, ended) = oneshot::channel::<()>();
        let (board, clock) = (watch.board().clone(), stage.clock());
        let server = tokio::spawn(serve(listener, board, clock, async {
            let _ = ended.await;
        }));
        Ok(House { stage, watch, page, traffic: Some(traffic), server, end })
    }

    /// Lets some entries run out after `life`, each as if it had been written with that.
    pub(super) async fn let_run_out(
        &self,
        keys: impl Iterator<Item = Key>,
        life: Duration,
    ) -> Result<(), DemoError> {
        let entries = keys.map(|key| (key, life));
        Ok(self.stage.write(entries).await.map_err(DrillError::from)?)
    }

    /// Goes on with these protections: the service is deployed anew.
    pub(super) fn deploy(&mut self, protections: &Protections) -> Result<(), DemoError> {
        // The old load ends first; its last answers come while the new one runs.
        self.traffic = None;
        self.traffic = Some(self.stage.load(self.stage.service(protections))?);
        Ok(())
    }

    /// The other entries, of which most run out together in the last act.
    pub(super) fn others(&self) -> impl Iterator<Item = Key> + use<> {
        1..Key::from(KEYS)
    }

    /// Takes it down.
    pub(super) async fn close(self) -> Result<(), DemoError> {
        drop(self.traffic);
        drop(self.watch);
        drop(self.end);
        // A page that did not end well is no reason to keep the server.
        let _ = self.server.await;
        Ok(self.stage.close().await.map_err(DrillError::from)?)
    }
}
