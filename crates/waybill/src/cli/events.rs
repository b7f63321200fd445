//! `waybill events send`: an event by way of EventBridge, as a producer sends it. Shows that bus, rule, queue and intake are wired.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use std::{path::PathBuf, process::ExitCode};
use waybill_aws::{BusEvent, EventBridgeBus};
use waybill_core::{
    event::{Event, EventLimits},
    json,
};

#[derive(Subcommand)]
pub(crate) enum EventsCommand {
    /// Puts one event onto an EventBridge bus, as a producer does, and prints EventBridge's id for it
    ///
    /// The file is checked as `POST /events` does, then sent as the `detail`. The event becomes a job if a rule of the bus leads to the
    /// intake queue and a tenant takes events of the source: `waybill tenants intake list`.
    Send(SendArgs),
}

#[derive(Args)]
pub(crate) struct SendArgs {
    /// JSON file with an event, as for `POST /events`
    file: PathBuf,
    /// Name or ARN of the bus
    #[arg(long, env = "WAYBILL_EVENT_BUS")]
    bus: String,
    /// The envelope's source, by which the tenant is found
    #[arg(long)]
    source: String,
    /// The envelope's detail-type; without it the event's own type
    #[arg(long)]
    detail_type: Option<String>,
}

pub(super) async fn run(command: EventsCommand) -> anyhow::Result<ExitCode> {
    let EventsCommand::Send(args) = command;
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("reading {}", args.file.display()))?;
    let event = checked(&text).with_context(|| format!("{} is no event", args.file.display()))?;
    let on_bus =
        BusEvent { source: args.source, detail_type: args.detail_type.unwrap_or(event.event_type), detail: text };
    let bus = EventBridgeBus::new(&waybill_aws::load(None).await, args.bus);
    match bus.publish(&[on_bus]).await.pop() {
        Some(Ok(id)) => println!("{id}"),
        Some(Err(error)) => return Err(error.into()),
        None => bail!("the bus gave no answer"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Every problem at once, one line each.
fn checked(text: &str) -> anyhow::Result<Event> {
    let json = json::parse(text.as_bytes())?;
    Event::from_json(&json, &EventLimits::default()).map_err(|errors| {
        let lines: Vec<_> = errors.iter().map(|e| format!("  {}: {}", e.pointer, e.detail)).collect();
        anyhow::anyhow!("\n{}", lines.join("\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_an_event_and_a_wrong_file_has_every_problem_named() {
        let example = include_str!("../../../../examples/purchase-order.json");
        assert_eq!(checked(example).unwrap().event_type, "order.placed");
        let errors = checked(r#"{"id": "1", "recipient": []}"#).unwrap_err().to_string();
        assert!(["/source", "/type", "/recipient", "/data"].iter().all(|field| errors.contains(field)), "{errors}");
        assert!(checked("{").is_err());
    }
}
