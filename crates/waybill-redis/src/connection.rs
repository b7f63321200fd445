//! One server or a cluster, behind the same question.

use futures::future::join_all;
use redis::{
    Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult,
    aio::{ConnectionManager, ConnectionManagerConfig},
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
};
use std::time::Duration;
use tokio::sync::Mutex;
use waybill_core::ports::LockError;

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// A slot that has just moved is asked for again at its new place; that is all that a cluster may retry.
const REDIRECTS: u32 = 2;

/// Asks a whole batch in one round trip.
pub(crate) enum Connection {
    /// One server, or the endpoint of a replication group: all commands are one pipeline.
    Single(ConnectionManager),
    Cluster(Box<Cluster>),
}

/// A pipeline must stay in one slot, and each key has its own: so there is one for each key, and all are under way at once. They share one
/// connection for each node.
pub(crate) struct Cluster {
    client: ClusterClient,
    /// Made by the first call, and anew after a failure: a cluster may have come back with other addresses.
    connection: Mutex<Option<ClusterConnection>>,
}

impl Connection {
    /// `redis://` and `rediss://` are one server, `redis-cluster://` and `rediss-cluster://` any node of a cluster.
    pub(crate) fn open(url: &str) -> Result<Self, LockError> {
        // The message does not repeat the address: it may hold a password.
        let unusable = |error: RedisError| LockError(format!("unusable address: {:?}", error.kind()));
        if let Some(node) = cluster_node(url) {
            let client = ClusterClientBuilder::new([node])
                .connection_timeout(CONNECT_TIMEOUT)
                .response_timeout(ANSWER_TIMEOUT)
                .overall_response_timeout(Some(ANSWER_TIMEOUT))
                .retries(REDIRECTS)
                .build()
                .map_err(unusable)?;
            return Ok(Self::Cluster(Box::new(Cluster { client, connection: Mutex::new(None) })));
        }
        let client = Client::open(url).map_err(unusable)?;
        // The manager must not retry: the cool-down decides when it is time.
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_number_of_retries(0);
        Ok(Self::Single(ConnectionManager::new_lazy_with_config(client, config).map_err(unusable)?))
    }

    /// The commands of each key, and one result for each command, in order. An error of the whole means that somebody did not answer;
    /// others may have.
    pub(crate) async fn ask<T: FromRedisValue>(&self, keys: Vec<Vec<Cmd>>) -> RedisResult<Vec<RedisResult<T>>> {
        match self {
            Self::Single(connection) => {
                let all = pipeline(keys.into_iter().flatten());
                all.query_async(&mut connection.clone()).await
            }
            Self::Cluster(cluster) => cluster.ask(keys).await,
        }
    }
}

impl Cluster {
    async fn ask<T: FromRedisValue>(&self, keys: Vec<Vec<Cmd>>) -> RedisResult<Vec<RedisResult<T>>> {
        let connection = self.connection().await?;
        let asked = keys.into_iter().map(|commands| {
            let mut connection = connection.clone();
            async move { pipeline(commands).query_async::<Vec<RedisResult<T>>>(&mut connection).await }
        });
        let answers: RedisResult<Vec<_>> = join_all(asked).await.into_iter().collect();
        if answers.is_err() {
            *self.connection.lock().await = None;
        }
        Ok(answers?.into_iter().flatten().collect())
    }

    async fn connection(&self) -> RedisResult<ClusterConnection> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = &*slot {
            return Ok(connection.clone());
        }
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.client.get_async_connection()).await;
        let connection = connecting.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        Ok(slot.insert(connection).clone())
    }
}

fn pipeline(commands: impl IntoIterator<Item = Cmd>) -> Pipeline {
    let mut pipeline = Pipeline::new();
    for command in commands {
        pipeline.add_command(command);
    }
    pipeline.ignore_errors();
    pipeline
}

/// The address of a node, as the client wants it.
fn cluster_node(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    Some(format!("{}://{rest}", scheme.strip_suffix("-cluster")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_says_whether_it_is_a_cluster() {
        assert_eq!(cluster_node("redis-cluster://:p@h:7000").as_deref(), Some("redis://:p@h:7000"));
        assert_eq!(cluster_node("rediss-cluster://h").as_deref(), Some("rediss://h"));
        assert_eq!(cluster_node("redis://a-cluster:6379"), None);
        assert_eq!(cluster_node("redis-cluster"), None);
    }
}
