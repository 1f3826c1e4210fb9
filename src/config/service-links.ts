/**
 * Owns which variables of an environment are Kubernetes' service links, which it puts into the pods of a
 * namespace for each Service there: a Service named `uma-tools` makes UMA_TOOLS_SERVICE_HOST and others.
 * Contract: "Limits": what others put there is no fault of this configuration.
 */

/** Forms that nothing else has: `…_SERVICE_HOST`, `…_SERVICE_PORT[_NAME]`, `…_PORT_80_TCP[_ADDR]`. */
const LINK =
  /^[A-Z_][A-Z0-9_]*_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d{1,5}_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$/
const PORT = /^([A-Z_][A-Z0-9_]*)_PORT$/
const PORT_ADDRESS = /^(?:tcp|udp|sctp):\/\//

/**
 * Whether a variable is such a link. `…_PORT` might also be a misspelt setting: it is a link if it has an
 * address such as `tcp://10.96.0.7:80`, or stands beside the `…_SERVICE_HOST` of the same Service.
 */
export function isServiceLink(
  name: string,
  environment: Readonly<Record<string, string | undefined>>,
): boolean {
  if (LINK.test(name)) return true
  const service = PORT.exec(name)?.[1]
  if (service === undefined) return false
  return PORT_ADDRESS.test(environment[name] ?? '') || environment[`${service}_SERVICE_HOST`] !== undefined
}
