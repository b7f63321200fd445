//! The contract of [`waybill_core::ports::Provider`]: see the providers' crate for what each adapter is held to.
