# The cluster, a small group for everything that is no accelerator, and a group of accelerator nodes.

data "aws_partition" "this" {}

data "aws_caller_identity" "this" {}

resource "aws_iam_role" "cluster" {
  name = "${var.cluster_name}-cluster"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "eks.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "arn:${data.aws_partition.this.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
}

resource "aws_eks_cluster" "this" {
  name     = var.cluster_name
  version  = var.kubernetes_version
  role_arn = aws_iam_role.cluster.arn

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = true
  }

  vpc_config {
    subnet_ids = var.subnet_ids
  }

  depends_on = [aws_iam_role_policy_attachment.cluster]
}

# Gives pods their roles: see recovery.tf.
resource "aws_eks_addon" "pod_identity" {
  cluster_name = aws_eks_cluster.this.name
  addon_name   = "eks-pod-identity-agent"
}

resource "aws_iam_role" "node" {
  name = "${var.cluster_name}-node"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset([
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryReadOnly",
  ])
  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.this.partition}:iam::aws:policy/${each.key}"
}

# Recovery runs here, away from the nodes that it replaces.
resource "aws_eks_node_group" "system" {
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = "system"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.subnet_ids
  ami_type        = "AL2023_x86_64_STANDARD"
  instance_types  = ["m7i.large"]

  scaling_config {
    min_size     = 2
    max_size     = 3
    desired_size = 2
  }

  depends_on = [aws_iam_role_policy_attachment.node]
}

# EKS tags the Auto Scaling group behind it with eks:cluster-name, which recovery's role relies on.
resource "aws_eks_node_group" "accelerators" {
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = "accelerators"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.accelerator_subnet_ids
  ami_type        = "AL2023_x86_64_NEURON"
  instance_types  = [var.instance_type]

  # A replacement may need room for one more before the bad one is gone.
  scaling_config {
    min_size     = var.nodes
    max_size     = var.nodes + 1
    desired_size = var.nodes
  }

  # Two repairers would race for the same node.
  node_repair_config {
    enabled = false
  }

  taint {
    key    = "aws.amazon.com/neuron"
    value  = "true"
    effect = "NO_SCHEDULE"
  }

  depends_on = [aws_iam_role_policy_attachment.node]
}
