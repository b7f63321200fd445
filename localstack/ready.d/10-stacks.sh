#!/bin/sh
# Deploys the committed templates of infra/ into the emulator, once it is up. The compose file waits for the last stack.
set -eu

templates=/opt/waybill/templates

for stack in messaging storage events; do
  echo "waybill: deploying $stack"
  awslocal cloudformation deploy \
    --region "$AWS_DEFAULT_REGION" \
    --stack-name "waybill-$stack" \
    --template-file "$templates/$stack.template.json" \
    --capabilities CAPABILITY_NAMED_IAM \
    --no-fail-on-empty-changeset
done

echo "waybill: queues"
awslocal sqs list-queues --region "$AWS_DEFAULT_REGION" --query 'QueueUrls' --output text
