"""Files in and out of a sandbox, judged by the policy and never through a link."""
