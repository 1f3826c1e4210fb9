import type { Certificates, TlsMaterial } from '../../src/http/certificates.ts'

/** Certificates that are never renewed. */
export function fixedCertificates<T extends TlsMaterial>(material: T): Certificates<T> {
  return { current: () => material, onReload: () => undefined, stop: () => undefined }
}
