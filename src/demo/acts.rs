//! The acts: calm, a hot entry without protection, the same with one load for all, a wave that is
//! announced.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, timeout_at};

use super::DemoError;
use super::house::{CALM, HOT, HOT_LOAD, HOT_SHARE, House, LIFE, RATE};
use super::teller::Teller;
use crate::board::View;
use crate::detect::Incident;
use crate::drill::Protections;
use crate::snapshot::Snapshot;

/// Learning takes half of the calm; this long is patience with a slow machine.
const READY_LIMIT: Duration = Duration::from_secs(40);
/// The life that is left to the hot entry when its act begins.
const LEFT: Duration = Duration::from_secs(2);
/// A stampede is declared within two polls of a second; more is patience.
const DECLARED_LIMIT: Duration = Duration::from_secs(10);
/// A stampede has ended a quarter of a minute after its last extra miss; more is patience.
const ENDED_LIMIT: Duration = Duration::from_secs(40);
/// How long the protected act is watched after its entry ran out: the load and some polls.
const WATCHED: Duration = Duration::from_secs(8);
/// The life that is left to the wave: time to see it coming.
const WAVE: Duration = Duration::from_secs(10);
/// Two of three entries are in the wave.
const OUT_OF_WAVE: u64 = 3;

/// What was shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Seconds from the hot entry's end to the verdict.
    pub declared_after: f64,
    /// Loads of the stampede, of which one was needed.
    pub loads_bare: u64,
    /// Loads of the same with protection.
    pub loads_protected: u64,
    /// Seconds by which the wave was announced before it broke.
    pub announced_before: f64,
}

/// All acts.
pub(super) async fn play(house: &mut House, teller: &mut Teller<'_>) -> Result<Outcome, DemoError> {
    teller.say(&format!(
        "A private redis-server at {}, a service with {RATE:.0} requests a second before a slow \
         database,\nand the exporter, whose page is at http://{}/ (metrics at /metrics).",
        house.stage.address().address,
        house.page
    ))?;
    let mut eyes = Eyes::open(house);
    calm(&mut eyes, teller).await?;
    let (declared_after, loads_bare) = bare(house, &mut eyes, teller).await?;
    let loads_protected = protected(house, &mut eyes, teller).await?;
    let announced_before = wave(house, &mut eyes, teller).await?;
    teller.title("What Prometheus would read now")?;
    for line in metrics(house).await?.lines().filter(|line| is_telling(line)) {
        teller.say(line)?;
    }
    teller.say(&format!(
        "\nSeen {declared_after:.1} s after it began, {loads_bare} loads where one would have done \
         ({loads_protected} with\nshared loads), and a wave announced {announced_before:.0} s ahead."
    ))?;
    Ok(Outcome { declared_after, loads_bare, loads_protected, announced_before })
}

/// Goes on without protection until it is stopped.
pub(super) async fn go_on(house: &mut House, teller: &mut Teller<'_>) -> Result<(), DemoError> {
    house.deploy(&Protections::default())?;
    teller.title("The load goes on, without protection; Ctrl-C ends it")?;
    teller.say(&format!(
        "The hot entry lives {} s, so there is a stampede every minute at http://{}/.",
        LIFE.as_secs(),
        house.page
    ))?;
    house.let_run_out([HOT].into_iter(), LIFE).await?;
    let mut eyes = Eyes::open(house);
    loop {
        eyes.look(teller, Instant::now() + ENDED_LIMIT).await?;
    }
}

async fn calm(eyes: &mut Eyes, teller: &mut Teller<'_>) -> Result<(), DemoError> {
    teller.title("Act 1: calm")?;
    teller.say("The exporter learns what is usual. A few entries run out every second.")?;
    let (least, limit) = (Instant::now() + CALM, Instant::now() + READY_LIMIT);
    loop {
        let now = eyes.look(teller, limit).await?;
        if now.verdict.ready && Instant::now() >= least {
            return Ok(());
        }
        if Instant::now() >= limit {
            return Err(DemoError::Failed("the exporter did not learn what is usual"));
        }
    }
}

async fn bare(
    house: &House,
    eyes: &mut Eyes,
    teller: &mut Teller<'_>,
) -> Result<(f64, u64), DemoError> {
    teller.title("Act 2: a hot entry runs out, nothing protects the database")?;
    teller.say(&format!(
        "{:.0} requests a second ask for it, and it takes {} s to load. It runs out in {} s.",
        RATE * HOT_SHARE,
        HOT_LOAD.as_secs(),
        LEFT.as_secs()
    ))?;
    let before = house.stage.backend().loads_of(HOT);
    house.let_run_out([HOT].into_iter(), LEFT).await?;
    let ran_out = house.stage.clock().now() + LEFT.as_secs_f64();
    let incident = eyes.wait_for_stampede(teller, LEFT + DECLARED_LIMIT).await?;
    let Some(incident) = incident else {
        return Err(DemoError::Failed("the stampede was not seen"));
    };
    let after = incident.started_at - ran_out;
    teller.shout(&format!(
        ">>> Stampede declared {after:.1} s after the entry ran out: cause {}, {:.0} misses a \
         second where {:.0} are usual.",
        incident.cause.as_str(),
        incident.peak_misses_per_second,
        incident.baseline_misses_per_second
    ))?;
    teller.say("It is over when a quarter of a minute was quiet.")?;
    let ended = eyes.wait_for_end(teller).await?;
    let loads = house.stage.backend().loads_of(HOT) - before;
    teller.say(&format!(
        "<<< Over after {:.0} s; cause {}, {:.0} misses too many. The database got {loads} loads of \
         one entry, 1 was needed.",
        ended.ended_at.unwrap_or(ended.started_at) - ended.started_at,
        ended.cause.as_str(),
        ended.excess_misses
    ))?;
    Ok((after, loads))
}

async fn protected(
    house: &mut House,
    eyes: &mut Eyes,
    teller: &mut Teller<'_>,
) -> Result<u64, DemoError> {
    teller.title("Act 3: the same with one load for all who wait (coalesce)")?;
    teller.say(&format!(
        "The service is deployed anew. The entry runs out in {} s.",
        LEFT.as_secs()
    ))?;
    house.deploy(&"coalesce".parse().unwrap_or_default())?;
    let before = house.stage.backend().loads_of(HOT);
    let coalesced = house.stage.counters().coalesced.get();
    house.let_run_out([HOT].into_iter(), LEFT).await?;
    if eyes.wait_for_stampede(teller, LEFT + WATCHED).await?.is_some() {
        return Err(DemoError::Failed("a stampede was seen where loads were shared"));
    }
    let loads = house.stage.backend().loads_of(HOT) - before;
    let waited = house.stage.counters().coalesced.get() - coalesced;
    teller.say(&format!("Nothing: {waited} requests waited for {loads} load."))?;
    Ok(loads)
}

async fn wave(
    house: &mut House,
    eyes: &mut Eyes,
    teller: &mut Teller<'_>,
) -> Result<f64, DemoError> {
    teller.title("Act 4: entries written together run out together")?;
    teller.say(&format!(
        "A job writes two of three entries with one life, {} s. Their deadlines tell beforehand.",
        WAVE.as_secs()
    ))?;
    let keys = house.others().filter(|key| !key.is_multiple_of(OUT_OF_WAVE));
    house.let_run_out(keys, WAVE).await?;
    let breaks = house.stage.clock().now() + WAVE.as_secs_f64();
    let limit = Instant::now() + WAVE;
    let mut announced = None;
    while announced.is_none() && Instant::now() < limit {
        let now = eyes.look(teller, limit).await?;
        let waves = now.ttl.iter().flat_map(|ttl| &ttl.waves);
        announced = waves
            .filter(|wave| (wave.start - 1.0..=wave.end + 1.0).contains(&breaks))
            .map(|wave| (now.time, wave.keys.value, wave.start - now.time))
            .next();
    }
    let Some((announced_at, keys, ahead)) = announced else {
        return Err(DemoError::Failed("the wave was not announced"));
    };
    teller.shout(&format!(
        ">>> A wave is announced: about {keys:.0} keys run out in {ahead:.0} s."
    ))?;
    let left = Duration::try_from_secs_f64(breaks - announced_at).unwrap_or_default();
    let Some(incident) = eyes.wait_for_stampede(teller, left + DECLARED_LIMIT).await? else {
        return Err(DemoError::Failed("the wave was not seen when it broke"));
    };
    teller.shout(&format!(
        ">>> It has broken: cause {}, {:.0} misses a second where {:.0} are usual.",
        incident.cause.as_str(),
        incident.peak_misses_per_second,
        incident.baseline_misses_per_second
    ))?;
    eyes.wait_for_end(teller).await?;
    teller.say("<<< Over. Lives that differ a little (jitter) would have spread it.")?;
    Ok(breaks - announced_at)
}

/// Looks at the exporter's board, one poll after the other.
struct Eyes {
    board: Receiver<View>,
    start: f64,
}

impl Eyes {
    fn open(house: &House) -> Eyes {
        let mut board = house.watch.board().subscribe();
        board.mark_unchanged();
        Eyes { board, start: house.stage.clock().now() }
    }

    /// Waits for the next poll, at most until `limit`, and tells its figures.
    async fn look(
        &mut self,
        teller: &mut Teller<'_>,
        limit: Instant,
    ) -> Result<Arc<Snapshot>, DemoError> {
        let changed = timeout_at(limit, self.board.changed()).await;
        let view = self.board.borrow_and_update().clone();
        let snapshot = view.caches.into_iter().next().unwrap_or_default();
        if matches!(changed, Ok(Ok(()))) {
            teller.figures(snapshot.time - self.start, &snapshot)?;
        }
        Ok(snapshot)
    }

    async fn wait_for_stampede(
        &mut self,
        teller: &mut Teller<'_>,
        patience: Duration,
    ) -> Result<Option<Incident>, DemoError> {
        let limit = Instant::now() + patience;
        while Instant::now() < limit {
            let now = self.look(teller, limit).await?;
            if let Some(incident) = &now.incidents.running {
                return Ok(Some(incident.clone()));
            }
        }
        Ok(None)
    }

    async fn wait_for_end(&mut self, teller: &mut Teller<'_>) -> Result<Incident, DemoError> {
        let limit = Instant::now() + ENDED_LIMIT;
        while Instant::now() < limit {
            let now = self.look(teller, limit).await?;
            if now.incidents.running.is_none()
                && let Some(incident) = now.incidents.past.front()
            {
                return Ok(incident.clone());
            }
        }
        Err(DemoError::Failed("the stampede did not end"))
    }
}

/// The exporter's metric page, over HTTP as Prometheus reads it.
async fn metrics(house: &House) -> Result<String, DemoError> {
    let mut stream = TcpStream::connect(house.page).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// A few of the series.
fn is_telling(line: &str) -> bool {
    let families = [
        "stampede_active{",
        "stampede_incidents_total{",
        "stampede_excess_misses_total{",
        "stampede_app_loads_total{",
        "stampede_app_loads_coalesced_total{",
    ];
    let told = families.iter().any(|family| line.starts_with(family));
    told && !(line.starts_with("stampede_incidents_total{") && line.ends_with(" 0"))
}
