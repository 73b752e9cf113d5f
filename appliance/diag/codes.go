// SPDX-License-Identifier: Apache-2.0

package diag

// Code is a stable identifier of a kind of problem. Codes are never reused or
// renumbered: scripts and runbooks key on them. docs/errors.md has a section for each, and a
// test keeps the two equal.
type Code string

// HF10xx: reading the configuration.
const (
	CodeSyntax      Code = "HF1001"
	CodeUnreadable  Code = "HF1002"
	CodeDuplicate   Code = "HF1003"
	CodeUnknownKey  Code = "HF1004"
	CodeType        Code = "HF1005"
	CodeValue       Code = "HF1006"
	CodeName        Code = "HF1007"
	CodeEnvironment Code = "HF1008"
	CodeNotYet      Code = "HF1009"
	CodeSecretFile  Code = "HF1010"
	CodeRequired    Code = "HF1011"
	CodeConflict    Code = "HF1012"
	CodeNATSKey     Code = "HF1013"
)

// HF11xx: what the configuration means.
const (
	CodeOverlap       Code = "HF1101"
	CodeNoByteLimit   Code = "HF1102"
	CodeBudget        Code = "HF1103"
	CodeWindow        Code = "HF1104"
	CodeFilter        Code = "HF1105"
	CodeReference     Code = "HF1106"
	CodeBackoff       Code = "HF1107"
	CodeSchedules     Code = "HF1108"
	CodePlainText     Code = "HF1109"
	CodeDurability    Code = "HF1110"
	CodeWorkQueue     Code = "HF1111"
	CodeLosesMessages Code = "HF1112"
	CodeSharedInbox   Code = "HF1113"
	CodeDecrypts      Code = "HF1121"
)

// HF20xx: the data directory and the identity.
const (
	CodeLocked        Code = "HF2001"
	CodeNewerFormat   Code = "HF2002"
	CodeFileSystem    Code = "HF2003"
	CodeAccess        Code = "HF2004"
	CodeDiskFull      Code = "HF2005"
	CodeStamp         Code = "HF2006"
	CodeIdentity      Code = "HF2007"
	CodeIdentityGone  Code = "HF2008"
	CodeForeignDir    Code = "HF2009"
	CodeNameChanged   Code = "HF2010"
	CodeIdentityWrite Code = "HF2011"
	CodeStoreGone     Code = "HF2012"
)

// HF21xx: the engine.
const (
	CodePortTaken    Code = "HF2101"
	CodeEngine       Code = "HF2102"
	CodeEngineConfig Code = "HF2103"
	CodeNotReady     Code = "HF2104"
	CodeStopTimeout  Code = "HF2105"
	CodeListen       Code = "HF2106"
	CodeStoreKey     Code = "HF2111"
)

// HF22xx: bootstrap.
const (
	CodeCreate    Code = "HF2201"
	CodeDiffers   Code = "HF2202"
	CodeUnmanaged Code = "HF2203"
	CodeObserve   Code = "HF2204"
	CodeUpdate    Code = "HF2205"
	CodeRecreate  Code = "HF2206"
	CodeStale     Code = "HF2207"
	CodeConsent   Code = "HF2208"
	CodePlanMoved Code = "HF2209"
	CodeAdopted   Code = "HF2210"
)

// HF23xx: certificates.
const (
	CodeCertificate Code = "HF2301"
	CodeCA          Code = "HF2302"
	CodeExpiry      Code = "HF2303"
	CodeCertNames   Code = "HF2304"
)

// HF24xx: the cluster.
const (
	CodeClusterSecret Code = "HF2401"
	CodeClusterPeer   Code = "HF2402"
	CodeClusterJoin   Code = "HF2403"
	CodeClusterStore  Code = "HF2404"
	CodeClusterGrow   Code = "HF2405"

	CodeClusterToken        Code = "HF2410"
	CodeClusterTokenRefused Code = "HF2411"
	CodeClusterStranger     Code = "HF2412"
	CodeClusterOwn          Code = "HF2413"

	CodeClusterClock   Code = "HF2421"
	CodeClusterName    Code = "HF2422"
	CodeClusterCopies  Code = "HF2423"
	CodeClusterStopped Code = "HF2424"
)

// HF30xx: the commands.
const (
	CodeNoNode        Code = "HF3001"
	CodeAdminRefused  Code = "HF3002"
	CodeUsage         Code = "HF3003"
	CodeExists        Code = "HF3004"
	CodeUnknownObject Code = "HF3005"
	CodeNoRoom        Code = "HF3006"
	CodeMiscount      Code = "HF3007"
	CodeAdminFalse    Code = "HF3008"
)

// HF31xx: the service.
const (
	CodeNeedsRoot    Code = "HF3101"
	CodePlace        Code = "HF3102"
	CodePackaged     Code = "HF3103"
	CodeForeignUnit  Code = "HF3104"
	CodeNoSystemd    Code = "HF3105"
	CodeNotInstalled Code = "HF3106"
	CodeService      Code = "HF3107"
	CodeKeepRunning  Code = "HF3108"
)

// HF32xx: tuning.
const (
	CodeTune       Code = "HF3201"
	CodeTuneRecord Code = "HF3202"
)
