//! ISO 4217 currency codes and their minor units.

use serde::de::{Deserialize, Deserializer, Error};

/// A currency's code with the number of digits its minor unit has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Currency {
    code: &'static str,
    minor: u32,
}

/// The codes in use by the ISO 4217 list (and the ones it replaced lately, for older orders), by the digits of the
/// minor unit. Metals, bonds and test codes have none and are left out.
const CODES: [(u32, &str); 4] = [
    (0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
    (
        2,
        "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE \
         CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL \
         HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR \
         MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK \
         SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XCD \
         XCG YER ZAR ZMW ZWG",
    ),
    (3, "BHD IQD JOD KWD LYD OMR TND"),
    (4, "CLF UYW"),
];

impl Currency {
    pub(crate) fn find(code: &str) -> Option<Self> {
        CODES.iter().find_map(|&(minor, codes)| {
            codes.split_ascii_whitespace().find(|&known| known == code).map(|code| Self { code, minor })
        })
    }

    pub(crate) fn code(self) -> &'static str {
        self.code
    }

    /// Digits of the minor unit: 2 for EUR, 0 for JPY.
    pub(crate) fn minor(self) -> u32 {
        self.minor
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Self::find(&code).ok_or_else(|| D::Error::custom("expected an ISO 4217 code in capitals, such as EUR"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_minor_units() {
        for (code, minor) in [("EUR", 2), ("USD", 2), ("JPY", 0), ("KWD", 3), ("CLF", 4)] {
            assert_eq!(Currency::find(code).map(Currency::minor), Some(minor), "{code}");
        }
        assert_eq!(Currency::find("EUR").map(Currency::code), Some("EUR"));
    }

    #[test]
    fn other_spellings_are_refused() {
        for code in ["eur", "EURO", "€", "", "XXX", "EU R", "XAU"] {
            assert_eq!(Currency::find(code), None, "{code}");
        }
    }

    #[test]
    fn no_code_is_listed_twice() {
        let mut all: Vec<_> = CODES.iter().flat_map(|(_, codes)| codes.split_ascii_whitespace()).collect();
        let listed = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), listed);
        assert!(all.iter().all(|code| code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase())));
    }
}
