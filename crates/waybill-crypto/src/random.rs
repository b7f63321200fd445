use rand::{TryRng, rngs::SysRng};

/// The operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system's random number generator failed")]
pub struct RandomError(#[source] rand::rngs::SysError);

/// Random bytes from the operating system, fit for secrets.
///
/// # Errors
/// [`RandomError`] when the operating system refuses; there is no weaker fallback.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).map_err(RandomError)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ_and_fill_the_whole_array() {
        let (a, b) = (random_bytes::<32>().unwrap(), random_bytes::<32>().unwrap());
        assert_ne!(a, b);
        // 64 draws of the last byte that are all zero would be a buffer that is not filled.
        assert!((0..64).any(|_| random_bytes::<32>().unwrap()[31] != 0));
    }
}
