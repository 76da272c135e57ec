variable "region" {
  description = "AWS Region."
  type        = string
}

variable "cluster_name" {
  description = "Name of the EKS cluster to make."
  type        = string
}

variable "kubernetes_version" {
  description = "1.30 or newer."
  type        = string
  default     = "1.33"
}

variable "subnet_ids" {
  description = "Private subnets of the cluster, in at least two Availability Zones."
  type        = list(string)
}

variable "accelerator_subnet_ids" {
  description = "Subnets of the accelerator nodes: all in the one Availability Zone where their capacity is."
  type        = list(string)
}

variable "instance_type" {
  description = "Of the accelerator nodes."
  type        = string
  default     = "trn1.32xlarge"
}

variable "nodes" {
  description = "Number of accelerator nodes."
  type        = number
  default     = 2
}

variable "alarm_topic_arn" {
  description = "SNS topic that alarms tell; empty = nobody is told."
  type        = string
  default     = ""
}
