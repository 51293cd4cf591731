//! What concerns the server as a whole: whose keys it holds, emptying it, its memory limit.

use std::collections::HashMap;

use super::{BATCH, KEY_SPACE, Store, StoreError};

/// Keys by whom they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// No key, or only what drills left behind.
    OnlyOurs,
    /// At least one key of somebody else.
    Foreign,
}

/// A memory limit as the server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::drill) struct MemoryLimit {
    /// `maxmemory`, bytes; 0 is none.
    pub(in crate::drill) bytes: String,
    /// `maxmemory-policy`.
    pub(in crate::drill) policy: String,
}

impl Store {
    /// Removes everything under our prefix; how many keys there were.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn clear(&self) -> Result<u64, StoreError> {
        let (mut cursor, mut removed) = (0_u64, 0);
        loop {
            let (next, found) = self.scan(cursor, Some(&self.prefix)).await?;
            if !found.is_empty() {
                removed += self.order::<u64>(redis::cmd("UNLINK").arg(&found)).await?;
            }
            if next == 0 {
                return Ok(removed);
            }
            cursor = next;
        }
    }

    /// What the server is, where a drill could not write or not clean up: in a cluster keys are
    /// spread over servers, and a replica takes no writes.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn unfit(&self) -> Result<Option<&'static str>, StoreError> {
        let cluster = self.info("cluster").await?;
        let replication = self.info("replication").await?;
        let says = |section: &HashMap<String, String>, field: &str, value: &str| {
            section.get(field).is_some_and(|text| text == value)
        };
        Ok(if says(&cluster, "cluster_enabled", "1") {
            Some("a node of a Redis Cluster")
        } else if says(&replication, "role", "slave") && !says(&replication, "slave_read_only", "0")
        {
            Some("a replica, which takes no writes")
        } else {
            None
        })
    }

    /// Whether the server holds keys that no drill wrote. Looks until it finds one.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn holding(&self) -> Result<Holding, StoreError> {
        let info = self.info("keyspace").await?;
        if info.keys().any(|field| field.starts_with("db") && field != "db0") {
            return Ok(Holding::Foreign);
        }
        let mut cursor = 0;
        loop {
            let (next, found) = self.scan(cursor, None).await?;
            if found.iter().any(|key| !key.starts_with(KEY_SPACE.as_bytes())) {
                return Ok(Holding::Foreign);
            }
            if next == 0 {
                return Ok(Holding::OnlyOurs);
            }
            cursor = next;
        }
    }

    /// Removes everything on the server. Only for a private one.
    pub(in crate::drill) async fn flush_all(&self) -> Result<(), StoreError> {
        self.order(&redis::cmd("FLUSHALL")).await
    }

    /// Leaves room for this share of the data that is there now, and lets the server evict the rest
    /// by recency. Gives the limit that was in force.
    pub(in crate::drill) async fn squeeze(&self, share: f64) -> Result<MemoryLimit, StoreError> {
        let before = self.memory_limit().await?;
        let memory = self.info("memory").await?;
        let field = |name: &str| memory.get(name).and_then(|text| text.parse::<f64>().ok());
        let used = field("used_memory").unwrap_or_default();
        let data = field("used_memory_dataset").unwrap_or_default();
        let limit = (used - data * (1.0 - share)).max(1.0);
        let policy = "allkeys-lru".to_owned();
        self.limit_memory(&MemoryLimit { bytes: format!("{limit:.0}"), policy }).await?;
        Ok(before)
    }

    /// Sets the memory limit.
    pub(in crate::drill) async fn limit_memory(
        &self,
        limit: &MemoryLimit,
    ) -> Result<(), StoreError> {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxmemory-policy").arg(&limit.policy);
        self.order::<()>(&command).await?;
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxmemory").arg(&limit.bytes);
        self.order(&command).await
    }

    async fn memory_limit(&self) -> Result<MemoryLimit, StoreError> {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg("maxmemory*");
        let mut settings: HashMap<String, String> = self.order(&command).await?;
        let mut setting = |name: &str| settings.remove(name).unwrap_or_default();
        Ok(MemoryLimit { bytes: setting("maxmemory"), policy: setting("maxmemory-policy") })
    }

    /// The fields of one section of INFO.
    async fn info(&self, section: &str) -> Result<HashMap<String, String>, StoreError> {
        let text: String = self.order(redis::cmd("INFO").arg(section)).await?;
        let field = |line: &str| line.split_once(':').map(|(k, v)| (k.to_owned(), v.to_owned()));
        Ok(text.lines().filter_map(field).collect())
    }

    async fn scan(
        &self,
        cursor: u64,
        prefix: Option<&str>,
    ) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("COUNT").arg(BATCH);
        if let Some(prefix) = prefix {
            command.arg("MATCH").arg(format!("{prefix}*"));
        }
        self.order(&command).await
    }
}
