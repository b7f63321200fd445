//! A TCP proxy between the processes and one server: cuts connections, loses answers, delays them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
};

/// What becomes of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Connections are closed and new ones too.
    Cut,
    /// Requests go through. The first answer closes its connection instead of arriving.
    LoseAnswers,
    /// Answers come this much later.
    Lag(Duration),
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    mode: watch::Sender<Mode>,
    lost: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for a proxy")?;
        let address = listener.local_addr().context("a proxy's port")?;
        let (mode, seen) = watch::channel(Mode::Pass);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = lost.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (seen, lost) = (seen.clone(), counter.clone());
                // An error is a closed connection, which is what both sides see.
                tokio::spawn(async move { connection(client, server, seen, &lost).await });
            }
        });
        Ok(Proxy { address, mode, lost })
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Connections that were closed so far with an answer under way.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Until either side closes, or the mode does. Dropping both streams resets what is under way.
async fn connection(
    client: TcpStream,
    server: SocketAddr,
    mut mode: watch::Receiver<Mode>,
    lost: &AtomicU64,
) -> std::io::Result<()> {
    if *mode.borrow() == Mode::Cut {
        return Ok(());
    }
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let answers = mode.clone();
    let cut = mode.wait_for(|mode| *mode == Mode::Cut);
    let requests = tokio::io::copy(&mut from_client, &mut to_server);
    let replies = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0 {
                return Ok::<_, std::io::Error>(());
            }
            let mode = *answers.borrow();
            match mode {
                Mode::Pass | Mode::Cut => {}
                Mode::Lag(by) => sleep(by).await,
                Mode::LoseAnswers => {
                    lost.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
            }
            to_client.write_all(&buffer[..read]).await?;
        }
    };
    tokio::select! {
        _ = cut => {}
        _ = requests => {}
        _ = replies => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Echoes, and counts what it has read.
    async fn server(read: Arc<AtomicU64>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let read = read.clone();
                tokio::spawn(async move {
                    let mut buffer = [0; 64];
                    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                        read.fetch_add(n as u64, Ordering::Relaxed);
                        let _ = stream.write_all(&buffer[..n]).await;
                    }
                });
            }
        });
        address
    }

    /// What comes back for `ping`; empty: the connection is gone.
    async fn ask(stream: &mut TcpStream) -> Vec<u8> {
        let mut buffer = [0; 64];
        let _ = stream.write_all(b"ping").await;
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        buffer[..read].to_vec()
    }

    #[tokio::test]
    async fn it_passes_cuts_and_loses_answers_after_the_request() {
        let read = Arc::new(AtomicU64::new(0));
        let proxy = Proxy::start(server(read.clone()).await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        assert_eq!(ask(&mut stream).await, b"ping");
        proxy.set(Mode::LoseAnswers);
        assert_eq!(ask(&mut stream).await, b"");
        assert_eq!((read.load(Ordering::Relaxed), proxy.lost()), (8, 1), "the server had the request");
        proxy.set(Mode::Pass);
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        assert_eq!(ask(&mut stream).await, b"ping");
        proxy.set(Mode::Cut);
        tokio::time::timeout(Duration::from_secs(5), async { while !ask(&mut stream).await.is_empty() {} })
            .await
            .unwrap();
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        assert_eq!(ask(&mut stream).await, b"");
    }
}
