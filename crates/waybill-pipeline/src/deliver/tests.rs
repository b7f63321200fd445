use super::statements::in_their_order;
use super::*;
use uuid::Uuid;
use waybill_core::ids::AttemptId;

fn request(delivery: u128, token: u128) -> ClaimRequest {
    ClaimRequest {
        delivery: DeliveryId(Uuid::from_u128(delivery)),
        token: Uuid::from_u128(token),
        attempt: AttemptId(Uuid::from_u128(token)),
    }
}

/// A repeated message in the same statement: if the refusal stood in the place of the grant, nobody would send, and the claim would end as
/// an unknown outcome of a provider that was never called.
#[test]
fn sqs_01_two_messages_of_one_delivery_in_one_claim_each_get_their_own_answer() {
    let (a, b, gone) = (request(1, 1), request(2, 2), request(3, 3));
    let again = request(1, 4);
    let granted = || Claim::Granted { version: 2, attempts: 0, position: 0, again: false };
    let refused = || Claim::InProgress { until_in: None, by: a.delivery, unknown: false };
    let claims = vec![(a.delivery, granted()), (b.delivery, granted()), (a.delivery, refused())];
    let answers = in_their_order(&[a, gone, b, again, gone], claims);
    assert_eq!(answers, [Some(granted()), None, Some(granted()), Some(refused()), None]);
}
