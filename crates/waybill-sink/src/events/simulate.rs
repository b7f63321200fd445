//! Recipients that mean something, like the addresses of the mailbox simulator of Amazon SES.

/// What becomes of a mail after the provider took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Delivered,
    /// A permanent bounce.
    Bounced,
    /// Delivered, then marked as spam.
    Complained,
    /// SendGrid only: taken with 202 and thrown away, as it does with addresses that it can't send to.
    Dropped,
}

/// `bounce...@simulator.example` bounces and `complaint...@simulator.example` complains; so do the addresses of the
/// real simulator. <https://docs.aws.amazon.com/ses/latest/dg/send-an-email-from-console.html>
pub(crate) fn fate_of(address: &str) -> Fate {
    let Some((local, domain)) = address.rsplit_once('@') else { return Fate::Delivered };
    let domain = domain.to_ascii_lowercase();
    if !local.is_ascii() {
        return Fate::Dropped;
    }
    if domain != "simulator.example" && domain != "simulator.amazonses.com" {
        return Fate::Delivered;
    }
    let local = local.to_ascii_lowercase();
    if local.starts_with("bounce") {
        Fate::Bounced
    } else if local.starts_with("complaint") {
        Fate::Complained
    } else {
        Fate::Delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_simulator_domain_has_special_recipients() {
        let cases = [
            ("bounce@simulator.example", Fate::Bounced),
            ("Bounce+t1@SIMULATOR.example", Fate::Bounced),
            ("complaint@simulator.amazonses.com", Fate::Complained),
            ("success@simulator.example", Fate::Delivered),
            ("bounce@example.com", Fate::Delivered),
            ("søren@example.test", Fate::Dropped),
        ];
        for (address, fate) in cases {
            assert_eq!(fate_of(address), fate, "{address}");
        }
    }
}
