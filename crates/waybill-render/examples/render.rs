//! Renders one event's document to a file, for people who work on a template:
//!
//! ```text
//! cargo run -p waybill-render --example render -- purchase_order examples/purchase-order.json order.pdf
//! ```
//!
//! The input may be a whole event or its `data` alone. Prints the pages, the size and the time of three renders.

#![expect(clippy::disallowed_methods, reason = "a tool that says how long it took")]

use std::path::PathBuf;
use std::time::Instant;

use serde_json::value::RawValue;

#[derive(serde::Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("usage: render TYPE INPUT OUTPUT (no {what})"));
    let document_type = next("TYPE")?.into_string().map_err(|_| "the type is not UTF-8")?;
    let input = std::fs::read_to_string(PathBuf::from(next("INPUT")?))?;
    let output = PathBuf::from(next("OUTPUT")?);
    let data = serde_json::from_str::<Event<'_>>(&input).map_or(input.as_str(), |event| event.data.get());

    let mut rendered = None;
    for _ in 0..3 {
        let started = Instant::now();
        let document = waybill_render::render(&document_type, data)?;
        let bytes = document.bytes.len();
        println!("{} page(s), {bytes} bytes, {} ms", document.pages, started.elapsed().as_millis());
        rendered = Some(document);
    }
    if let Some(document) = rendered {
        std::fs::write(output, document.bytes)?;
    }
    Ok(())
}
