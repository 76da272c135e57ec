# What recovery may do at AWS, and the alarms. The workloads come with: kubectl apply -k manifests/base

locals {
  iam = "${path.module}/../iam/pod-identity"
}

resource "aws_iam_role" "recovery" {
  name               = "${var.cluster_name}-chipwarden-recovery"
  assume_role_policy = replace(file("${local.iam}/trust.json"), "CLUSTER_NAME", var.cluster_name)
}

resource "aws_iam_role_policy" "recovery" {
  name   = "chipwarden-recovery"
  role   = aws_iam_role.recovery.id
  policy = replace(file("${local.iam}/policy.json"), "ACCOUNT_ID", data.aws_caller_identity.this.account_id)
}

# Namespace and account as manifests/base has them.
resource "aws_eks_pod_identity_association" "recovery" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = "neuron-healthcheck-system"
  service_account = "node-problem-detector"
  role_arn        = aws_iam_role.recovery.arn

  depends_on = [aws_eks_addon.pod_identity]
}

# The same template that is used without Terraform. ClusterName is left empty, because recovery sends no dimension unless its
# setting clusterName says so; with several clusters in an account, set both.
resource "aws_cloudformation_stack" "alarms" {
  name          = "${var.cluster_name}-chipwarden-alarms"
  template_body = file("${path.module}/../cloudwatch/alarms.yaml")

  parameters = {
    Topic = var.alarm_topic_arn
  }
}

output "next" {
  description = "What is left to do by hand."
  value       = "aws eks update-kubeconfig --region ${var.region} --name ${var.cluster_name} && kubectl apply -k ${abspath("${path.module}/../base")}"
}
