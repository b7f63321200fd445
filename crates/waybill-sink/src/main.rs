//! `waybill-sink --listen 127.0.0.1:7790`: the provider sink as a program of its own.

use std::{net::SocketAddr, process::ExitCode};

use clap::Parser;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use waybill_sink::{EventsTarget, Provider, Sink, SinkConfig, TargetError};

/// Plays Amazon SES, SendGrid, Resend, Postmark and an SMTP server over their real wire formats: mailbox, counts, fault scripts, provider events.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Address to listen on. Port 0 picks a free one and prints it.
    #[arg(long, env = "WAYBILL_SINK_LISTEN", default_value = "127.0.0.1:7790")]
    listen: SocketAddr,
    /// Address to take mails by SMTP on; without it there is no SMTP.
    #[arg(long, env = "WAYBILL_SINK_SMTP_LISTEN")]
    smtp_listen: Option<SocketAddr>,
    /// How many mails the mailbox keeps.
    #[arg(long, env = "WAYBILL_SINK_MAX_MAILS", default_value_t = 20_000)]
    max_mails: usize,
    /// Receiver of SES events; userinfo becomes Basic authorization.
    #[arg(long, env = "WAYBILL_SINK_SES_EVENTS_URL", hide_env_values = true)]
    ses_events_url: Option<String>,
    /// Receiver of SendGrid events; userinfo becomes Basic authorization.
    #[arg(long, env = "WAYBILL_SINK_SENDGRID_EVENTS_URL", hide_env_values = true)]
    sendgrid_events_url: Option<String>,
    /// Receiver of Resend events.
    #[arg(long, env = "WAYBILL_SINK_RESEND_EVENTS_URL", hide_env_values = true)]
    resend_events_url: Option<String>,
    /// Receiver of Postmark events; userinfo becomes Basic authorization.
    #[arg(long, env = "WAYBILL_SINK_POSTMARK_EVENTS_URL", hide_env_values = true)]
    postmark_events_url: Option<String>,
    /// Secret that Resend events are signed with, `whsec_` and base64; without it they are not signed.
    #[arg(long, env = "WAYBILL_SINK_RESEND_WEBHOOK_SECRET", hide_env_values = true)]
    resend_webhook_secret: Option<String>,
    /// Let event receivers be outside loopback, as in a compose network.
    #[arg(long, env = "WAYBILL_SINK_ALLOW_REMOTE_EVENTS")]
    allow_remote_events: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "sink.failed");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let sink = Sink::new(SinkConfig { max_mails: args.max_mails, events: Some(events_target(&args)?) });
    if args.allow_remote_events {
        sink.allow_remote_events();
    }
    let listener = TcpListener::bind(args.listen).await?;
    let address = listener.local_addr()?;
    // On stdout, for scripts that asked for port 0.
    println!("http://{address}");
    tracing::info!(%address, mailbox = %format_args!("http://{address}/mailbox"), "sink.listening");
    let shutdown = CancellationToken::new();
    tokio::spawn(cancel_on_signal(shutdown.clone()));
    if let Some(address) = args.smtp_listen {
        let listener = TcpListener::bind(address).await?;
        tracing::info!(address = %listener.local_addr()?, "sink.smtp.listening");
        tokio::spawn(sink.clone().serve_smtp(listener, shutdown.clone()));
    }
    sink.serve(listener, shutdown).await?;
    Ok(())
}

/// A provider without a receiver posts nothing.
fn events_target(args: &Args) -> Result<EventsTarget, TargetError> {
    let (ses, sendgrid) = (args.ses_events_url.as_deref(), args.sendgrid_events_url.as_deref());
    let make = if args.allow_remote_events { EventsTarget::remote } else { EventsTarget::new };
    let target = make(ses, sendgrid)?
        .with(Provider::Resend, args.resend_events_url.as_deref())?
        .with(Provider::Postmark, args.postmark_events_url.as_deref())?;
    match &args.resend_webhook_secret {
        Some(secret) => target.signed_for_resend(secret),
        None => Ok(target),
    }
}

async fn cancel_on_signal(shutdown: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    shutdown.cancel();
}
